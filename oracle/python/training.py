"""A training session with checkpoints that prints every loss in full."""

import sys

import cntk
from cntk.train import CheckpointConfig, training_session


class Losses(cntk.cntk_py.ProgressWriter):
    """Prints the sums of each minibatch, to the last digit."""

    def __init__(self):
        super(Losses, self).__init__(1, 0, 1, 0, 0, 0)
        self.__disown__()

    def on_write_training_update(self, samples, updates, aggregate_loss, aggregate_metric):
        print('minibatch %d: samples %d, loss %r, errors %r' % (
            updates[1], samples[1], aggregate_loss[1], aggregate_metric[1]))

    def on_write_training_summary(self, samples, updates, summaries, aggregate_loss, aggregate_metric, milliseconds):
        print('epoch: samples %d, loss %r, errors %r' % (samples, aggregate_loss, aggregate_metric))
        sys.stdout.flush()


def train(model, loss, metric, inputs, source, minibatch, epoch, epochs, checkpoint):
    """Trains for `epochs` epochs of `epoch` samples, from the checkpoint's position if there is one."""
    rate = cntk.learning_parameter_schedule(0.005, minibatch_size=1)
    learner = cntk.momentum_sgd(model.parameters, rate, cntk.momentum_schedule(0.9, minibatch_size=minibatch))
    trainer = cntk.Trainer(model, (loss, metric), [learner], [Losses()])
    training_session(
        trainer=trainer, mb_source=source, mb_size=minibatch, model_inputs_to_streams=inputs, progress_frequency=epoch,
        max_samples=epoch * epochs,
        checkpoint_config=CheckpointConfig(filename=checkpoint, frequency=epoch, restore=True)).train()
    state = source.get_checkpoint_state()
    print('state: %s' % sorted((key, state[key]) for key in state.keys()))
    for parameter in model.parameters:
        value = parameter.value.astype('float64')
        print('weights %s: %r %r' % (parameter.shape, float(value.sum()), float((value * value).sum())))


def prepare():
    """Sets fixed seeds and deterministic algorithms, so that sums are reproducible."""
    cntk.cntk_py.set_fixed_random_seed(1)
    cntk.cntk_py.force_deterministic_algorithms()
    cntk.device.try_set_default_device(cntk.device.cpu())
