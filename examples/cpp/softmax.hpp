// Softmax regression: a linear classifier, trained by stochastic gradient descent with momentum.
//
// All sums are computed in double precision and in a fixed order, so that equal samples in equal
// order produce bit-identical weights.

#ifndef EXAMPLES_SOFTMAX_HPP
#define EXAMPLES_SOFTMAX_HPP

#include <algorithm>
#include <cmath>
#include <cntk_reader.hpp>
#include <cstddef>
#include <vector>

class Softmax {
 public:
  Softmax(std::size_t inputs, std::size_t classes)
      : inputs_(inputs),
        classes_(classes),
        parameters_(classes * (inputs + 1)),
        velocity_(parameters_.size()) {}

  // The quality of the model's predictions so far.
  struct Score {
    double loss = 0;  // Sum of the samples' cross entropies.
    double correct = 0;
    double samples = 0;

    void Add(const Score& other) {
      loss += other.loss;
      correct += other.correct;
      samples += other.samples;
    }
  };

  // Scores a minibatch, and adds to the gradient, which has the size of the parameters, or is null.
  Score Process(const cntk::reader::Minibatch& minibatch, double* gradient) const {
    const cntk::reader::StreamMinibatch features = minibatch["features"];
    const cntk::reader::StreamMinibatch labels = minibatch["labels"];
    std::vector<double> label(classes_), output(classes_);
    Score score;
    // Samples are sequences of one step, so a column belongs to the same column of the other
    // stream.
    for (std::size_t column = 0; column < features.Columns(); ++column) {
      const auto input = features.Column<float>(column);
      std::fill(label.begin(), label.end(), 0.0);
      labels.ForEachValue<float>(
          column, [&](std::size_t row, float value) { label[row] = static_cast<double>(value); });
      Predict(input, output);
      Count(output, label, score);
      for (std::size_t k = 0; gradient != nullptr && k < classes_; ++k)
        Accumulate(input, output[k] - label[k], gradient + k * (inputs_ + 1));
    }
    return score;
  }

  // Makes one step against the gradient.
  void Step(const double* gradient, double rate) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      velocity_[i] = kMomentum * velocity_[i] - rate * gradient[i];
      parameters_[i] += velocity_[i];
    }
  }

  // Weights and biases, class by class.
  std::vector<double>& Parameters() { return parameters_; }

  // The optimizer's state: the running mean of the steps.
  std::vector<double>& Velocity() { return velocity_; }

 private:
  using Sample = cntk::reader::Span<const float>;

  static constexpr double kScale = 1.0 / 16;  // Pixels go from 0 to 16.
  static constexpr double kMomentum = 0.9;

  void Predict(Sample input, std::vector<double>& output) const {
    for (std::size_t k = 0; k < classes_; ++k) {
      const double* weights = &parameters_[k * (inputs_ + 1)];
      output[k] = weights[inputs_];
      for (std::size_t i = 0; i < inputs_; ++i)
        output[k] += weights[i] * kScale * static_cast<double>(input[i]);
    }
    const double largest = *std::max_element(output.begin(), output.end());
    double sum = 0;
    for (double& value : output) sum += value = std::exp(value - largest);
    for (double& value : output) value /= sum;
  }

  static void Count(const std::vector<double>& output, const std::vector<double>& label, Score& score) {
    for (std::size_t k = 0; k < output.size(); ++k)
      if (label[k] != 0) score.loss -= label[k] * std::log(std::max(output[k], 1e-300));
    const auto place = [](const std::vector<double>& v) {
      return std::max_element(v.begin(), v.end()) - v.begin();
    };
    score.correct += place(output) == place(label) ? 1 : 0;
    score.samples += 1;
  }

  void Accumulate(Sample input, double error, double* gradient) const {
    for (std::size_t i = 0; i < inputs_; ++i) gradient[i] += error * kScale * static_cast<double>(input[i]);
    gradient[inputs_] += error;
  }

  std::size_t inputs_, classes_;
  std::vector<double> parameters_, velocity_;
};

#endif  // EXAMPLES_SOFTMAX_HPP
