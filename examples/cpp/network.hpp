// A network with one hidden layer, trained by stochastic gradient descent with momentum.
//
// All sums are computed in a fixed order, so that equal samples in equal order produce
// bit-identical weights.

#ifndef EXAMPLES_NETWORK_HPP
#define EXAMPLES_NETWORK_HPP

#include <algorithm>
#include <cmath>
#include <cntk_reader.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

// Mean and deviation of each input: networks learn faster from inputs of mean 0 and deviation 1.
class Normalization {
 public:
  explicit Normalization(std::size_t inputs)
      : sum_(inputs), squares_(inputs), mean_(inputs), scale_(inputs) {}

  void Add(cntk::reader::Span<const float> input) {
    ++samples_;
    for (std::size_t i = 0; i < sum_.size(); ++i) {
      const auto value = static_cast<double>(input[i]);
      sum_[i] += value;
      squares_[i] += value * value;
    }
  }

  // Call after all samples were added.
  void Finish() {
    for (std::size_t i = 0; i < sum_.size(); ++i) {
      const double mean = sum_[i] / samples_;
      const double variance = squares_[i] / samples_ - mean * mean;
      mean_[i] = static_cast<float>(mean);
      scale_[i] = static_cast<float>(1 / std::sqrt(std::max(variance, 1e-6)));
    }
  }

  void Apply(cntk::reader::Span<const float> input, std::vector<float>& output) const {
    for (std::size_t i = 0; i < mean_.size(); ++i) output[i] = (input[i] - mean_[i]) * scale_[i];
  }

 private:
  double samples_ = 0;
  std::vector<double> sum_, squares_;
  std::vector<float> mean_, scale_;
};

class Network {
 public:
  Network(std::size_t inputs, std::size_t hidden, std::size_t classes)
      : inputs_(inputs),
        hidden_(hidden),
        classes_(classes),
        parameters_((inputs + 1) * hidden + (hidden + 1) * classes),
        velocity_(parameters_.size()) {
    // Small random weights, identical on every machine; biases are 0.
    std::uint64_t state = 1;
    const auto fill = [&](float* weights, std::size_t from, std::size_t to) {
      const float range = 1 / std::sqrt(static_cast<float>(from));
      for (std::size_t i = 0; i < from * to; ++i) {
        state = state * 6364136223846793005 + 1442695040888963407;
        weights[i] = range * (static_cast<float>(state >> 40) / (1 << 23) - 1);
      }
    };
    fill(parameters_.data(), inputs_, hidden_);
    fill(parameters_.data() + (inputs_ + 1) * hidden_, hidden_, classes_);
  }

  // The quality of the network's predictions so far.
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
  Score Process(const cntk::reader::Minibatch& minibatch, const Normalization& normalization,
                float* gradient) const {
    const cntk::reader::StreamMinibatch features = minibatch["features"];
    const cntk::reader::StreamMinibatch labels = minibatch["labels"];
    std::vector<float> input(inputs_), hidden(hidden_), output(classes_), back(hidden_);
    Score score;
    // In frame mode samples are sequences of one step, so a column belongs to the same column of
    // the other stream.
    for (std::size_t column = 0; column < features.Columns(); ++column) {
      normalization.Apply(features.Column<float>(column), input);
      Predict(input, hidden, output);
      std::size_t label = 0;
      labels.ForEachValue<float>(column, [&](std::size_t row, float) { label = row; });
      score.loss -= std::log(std::max(static_cast<double>(output[label]), 1e-300));
      score.correct += output[label] == *std::max_element(output.begin(), output.end()) ? 1 : 0;
      score.samples += 1;
      if (gradient == nullptr) continue;
      output[label] -= 1;
      Accumulate(input, hidden, output, back, gradient);
    }
    return score;
  }

  // Makes one step against the gradient.
  void Step(const float* gradient, float rate) {
    for (std::size_t i = 0; i < velocity_.size(); ++i) {
      velocity_[i] = kMomentum * velocity_[i] - rate * gradient[i];
      parameters_[i] += velocity_[i];
    }
  }

  // For each layer the weights, input by input, and the biases.
  std::vector<float>& Parameters() { return parameters_; }

  // The optimizer's state: the running mean of the steps.
  std::vector<float>& Velocity() { return velocity_; }

 private:
  static constexpr float kMomentum = 0.9F;

  // output = weights * input + biases.
  static void Affine(const float* weights, const std::vector<float>& input, std::vector<float>& output) {
    const std::size_t size = output.size();
    std::copy_n(weights + input.size() * size, size, output.begin());
    for (std::size_t i = 0; i < input.size(); ++i)
      for (std::size_t k = 0; k < size; ++k) output[k] += weights[i * size + k] * input[i];
  }

  // Computes the gradient of a layer from its input and the error of its output.
  static void AffineGradient(const std::vector<float>& input, const std::vector<float>& error,
                             float* gradient) {
    const std::size_t size = error.size();
    for (std::size_t i = 0; i < input.size(); ++i)
      for (std::size_t k = 0; k < size; ++k) gradient[i * size + k] += error[k] * input[i];
    for (std::size_t k = 0; k < size; ++k) gradient[input.size() * size + k] += error[k];
  }

  const float* SecondLayer() const { return parameters_.data() + (inputs_ + 1) * hidden_; }

  void Predict(const std::vector<float>& input, std::vector<float>& hidden,
               std::vector<float>& output) const {
    Affine(parameters_.data(), input, hidden);
    for (float& value : hidden) value = std::tanh(value);
    Affine(SecondLayer(), hidden, output);
    const float largest = *std::max_element(output.begin(), output.end());
    float sum = 0;
    for (float& value : output) sum += value = std::exp(value - largest);
    for (float& value : output) value /= sum;
  }

  void Accumulate(const std::vector<float>& input, const std::vector<float>& hidden,
                  const std::vector<float>& error, std::vector<float>& back, float* gradient) const {
    AffineGradient(hidden, error, gradient + (inputs_ + 1) * hidden_);
    const float* weights = SecondLayer();
    for (std::size_t h = 0; h < hidden_; ++h) {
      back[h] = 0;
      for (std::size_t k = 0; k < classes_; ++k) back[h] += weights[h * classes_ + k] * error[k];
      back[h] *= 1 - hidden[h] * hidden[h];
    }
    AffineGradient(input, back, gradient);
  }

  std::size_t inputs_, hidden_, classes_;
  std::vector<float> parameters_, velocity_;
};

#endif  // EXAMPLES_NETWORK_HPP
