// TrainDigits: reads handwritten digits from C#, learns to recognize them, and continues from a
// checkpoint.
//
//   TrainDigits [DIR]    DIR contains digits.train.ctf; by default examples/data

using System;
using System.IO;
using System.Linq;
using CntkReader;

static class TrainDigits
{
    const int Pixels = 64, Digits = 10;
    const ulong MinibatchSize = 32;
    const double LearningRate = 0.5;

    static Reader Open(string file)
    {
        return new Reader(@"
            randomize = true
            deserializers = ( [ type = ""CNTKTextFormatDeserializer"" ; module = ""CNTKTextFormatReader""
                                file = """ + file + @"""
                                input = [ features = [ dim = 64 ; format = ""dense"" ]
                                          labels = [ dim = 10 ; format = ""sparse"" ] ] ] )");
    }

    static void ShowFirst(Reader reader)
    {
        foreach (StreamDescription stream in reader.Streams)
            Console.WriteLine("stream {0}: {1} values of a sample, {2}", stream.Name, stream.SampleSize,
                              stream.IsSparse ? "sparse" : "dense");
        foreach (Member member in reader.Members)
            Console.WriteLine("{0}: {1} samples in {2} chunks", member.Type, member.Sizes.Samples, member.Sizes.Chunks);
        reader.StartEpoch(new Epoch { MinibatchSize = MinibatchSize });
        using (Minibatch minibatch = reader.Next())
        {
            Console.WriteLine("{0} of {1} samples read, {2} bytes in use", reader.Progress.Delivered,
                              reader.Progress.Expected, reader.MemoryInBytes > 0 ? "some" : "no");
            StreamMinibatch features = minibatch["features"], labels = minibatch["labels"];
            Console.WriteLine("first minibatch: features {0} x {1}, labels {2} x {3} with {4} stored values",
                              features.SampleSize, features.Columns, labels.SampleSize, labels.Columns,
                              labels.ValueCount);
            Console.WriteLine("first digit: a {0}, middle rows {1}", labels.Indices()[0],
                              string.Join(" ", features.Floats().Skip(24).Take(16)));
        }
    }

    // Trains on the rest of the epoch. Returns the fraction of samples that were recognized before
    // training on them.
    static double Learn(Reader reader, double[,] weights, int minibatches = int.MaxValue)
    {
        int right = 0, samples = 0;
        foreach (Minibatch minibatch in reader.Minibatches().Take(minibatches))
        {
            float[] pixels = minibatch["features"].Floats();
            int[] digits = minibatch["labels"].Indices();    // One stored value per sample: the digit.
            var step = new double[Digits, Pixels];
            for (int i = 0; i < digits.Length; ++i)
            {
                double[] scores = Enumerable.Range(0, Digits).Select(k => Math.Exp(Enumerable
                    .Range(0, Pixels).Sum(p => weights[k, p] * pixels[i * Pixels + p] / 16))).ToArray();
                double sum = scores.Sum();
                if (Array.IndexOf(scores, scores.Max()) == digits[i]) ++right;
                for (int k = 0; k < Digits; ++k)
                    for (int p = 0; p < Pixels; ++p)
                        step[k, p] += ((k == digits[i] ? 1 : 0) - scores[k] / sum)
                                      * pixels[i * Pixels + p] / 16;
            }
            for (int k = 0; k < Digits; ++k)
                for (int p = 0; p < Pixels; ++p)
                    weights[k, p] += LearningRate * step[k, p] / digits.Length;
            samples += digits.Length;
        }
        return (double)right / samples;
    }

    // Saves a checkpoint in the middle of the second epoch, then finishes the epoch twice: with
    // this reader, and with a new one that is restored. The weights must be equal.
    static bool Resume(Reader reader, string file, double[,] weights)
    {
        reader.StartEpoch(new Epoch { MinibatchSize = MinibatchSize, Index = 1 });
        Learn(reader, weights, 20);
        byte[] checkpoint = reader.SaveCheckpoint();
        var copy = (double[,])weights.Clone();
        Console.WriteLine("epoch 2: accuracy {0:F3} after minibatch 20", Learn(reader, weights));
        using (Reader other = Open(file))
        {
            other.RestoreCheckpoint(checkpoint);
            Learn(other, copy);
        }
        bool same = weights.Cast<double>().SequenceEqual(copy.Cast<double>());
        Console.WriteLine("resumed from a checkpoint of {0} bytes: {1} weights", checkpoint.Length,
                          same ? "the same" : "other");
        return same;
    }

    // Shows that an error has its location: here a letter among the pixels of the second line.
    static bool ShowError(string file)
    {
        string broken = Path.GetTempFileName();
        try
        {
            string[] lines = File.ReadLines(file).Take(3).ToArray();
            lines[1] = lines[1].Substring(0, lines[1].Length - 1) + "x";
            File.WriteAllLines(broken, lines);
            using (Reader reader = Open(broken))
            {
                reader.StartEpoch(new Epoch { MinibatchSize = MinibatchSize });
                reader.Next().Dispose();
            }
            return false;
        }
        catch (ReaderException error)
        {
            Console.WriteLine("error: {0}\n  line {1}, stream {2}", error.Message, error.Line, error.Stream);
            return error.File == broken && error.Line == 2 && error.Stream == "features";
        }
        finally
        {
            File.Delete(broken);
        }
    }

    static int Main(string[] arguments)
    {
        string file = Path.Combine(arguments.Length > 0 ? arguments[0] : "examples/data", "digits.train.ctf");
        try
        {
            using (Reader reader = Open(file))
            {
                ShowFirst(reader);
                var weights = new double[Digits, Pixels];
                reader.StartEpoch(new Epoch { MinibatchSize = MinibatchSize });
                Console.WriteLine("epoch 1: accuracy {0:F3}", Learn(reader, weights));
                return Resume(reader, file, weights) && ShowError(file) ? 0 : 1;
            }
        }
        catch (ReaderException error)
        {
            Console.Error.WriteLine("TrainDigits: " + error.Message);
            return 1;
        }
    }
}
