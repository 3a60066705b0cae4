// Descriptions.cs: errors, streams, sizes and settings, as Reader.cs passes them on.

using System;
using System.Collections.Generic;

namespace CntkReader
{
    /// <summary>Kinds of errors: cntk_reader_status in cntk_reader.h.</summary>
    public enum ErrorKind
    {
        /// <summary>A mistake in the configuration.</summary>
        Configuration = 1,
        /// <summary>An argument out of its range.</summary>
        InvalidArgument = 2,
        /// <summary>A file cannot be opened or read.</summary>
        IO = 3,
        /// <summary>A mistake in the data.</summary>
        Data = 4,
        /// <summary>A checkpoint that does not fit the reader, or is damaged.</summary>
        Checkpoint = 5,
        /// <summary>A call at the wrong time, such as reading before an epoch is started.</summary>
        State = 6,
        /// <summary>A function of the program has failed.</summary>
        User = 7,
        /// <summary>A bug in cntk-reader; please report it.</summary>
        Internal = 8,
        /// <summary>The call was cancelled.</summary>
        Cancelled = 9,
        /// <summary>There is not enough memory.</summary>
        Memory = 10
    }

    /// <summary>An error with its location. Unknown members are null or 0.</summary>
    public sealed class ReaderException : Exception
    {
        /// <summary>The kind of the error.</summary>
        public ErrorKind Kind { get; }
        /// <summary>Path of the data file or of the configuration.</summary>
        public string File { get; }
        /// <summary>Line in the file, from 1.</summary>
        public ulong Line { get; }
        /// <summary>Column in a line of a configuration, from 1.</summary>
        public ulong Column { get; }
        /// <summary>Name of the stream.</summary>
        public string Stream { get; }
        /// <summary>Key of the sequence.</summary>
        public string Key { get; }

        internal ReaderException(ErrorKind kind, string text, Native.ErrorInfo info) : base(text)
        {
            Kind = kind;
            File = Native.Text(info.File);
            Line = info.Line;
            Column = info.Column;
            Stream = Native.Text(info.Stream);
            Key = Native.Text(info.Key);
        }
    }

    /// <summary>Types of values: cntk_reader_element in cntk_reader.h.</summary>
    public enum ElementType
    {
        /// <summary>32-bit floating point.</summary>
        Float = 1,
        /// <summary>64-bit floating point.</summary>
        Double = 2,
        /// <summary>16-bit floating point, IEEE 754.</summary>
        Float16 = 4,
        /// <summary>16-bit integers.</summary>
        Int16 = 6,
        /// <summary>Bytes, such as pixels.</summary>
        UInt8 = 16,
        /// <summary>32-bit integers, such as ids of words or classes.</summary>
        Int32 = 17,
        /// <summary>64-bit integers.</summary>
        Int64 = 18,
        /// <summary>16-bit floating point with the exponent of 32-bit values.</summary>
        BFloat16 = 19,
        /// <summary>Bytes that are 0 or 1.</summary>
        Bool = 20
    }

    /// <summary>A stream of a reader.</summary>
    public sealed class StreamDescription
    {
        /// <summary>Its name.</summary>
        public string Name { get; internal set; }
        /// <summary>Whether its minibatches store only values that the data name.</summary>
        public bool IsSparse { get; internal set; }
        /// <summary>Type of its values.</summary>
        public ElementType Element { get; internal set; }
        /// <summary>Values per sample.</summary>
        public int SampleSize { get; internal set; }
        /// <summary>Shape of a sample, first dimension varying fastest.</summary>
        public IReadOnlyList<int> Shape { get; internal set; }
        /// <summary>If the values are class numbers, the number of classes; else 0.</summary>
        public int Classes { get; internal set; }
    }

    /// <summary>Sizes of data. Unknown members are null.</summary>
    public sealed class Sizes
    {
        /// <summary>Samples of one sweep, in the unit of minibatch and epoch sizes.</summary>
        public ulong? Samples { get; }
        /// <summary>Sequences of one sweep.</summary>
        public ulong? Sequences { get; }
        /// <summary>Chunks, which are read as a whole.</summary>
        public ulong? Chunks { get; }

        internal Sizes(ulong? samples, ulong? sequences, ulong? chunks)
        {
            Samples = samples;
            Sequences = sequences;
            Chunks = chunks;
        }
    }

    /// <summary>One of a reader's deserializers.</summary>
    public sealed class Member
    {
        /// <summary>Its file.</summary>
        public string Name { get; }
        /// <summary>Its <c>type</c> in the configuration.</summary>
        public string Type { get; }
        /// <summary>Sizes of its data.</summary>
        public Sizes Sizes { get; }

        internal Member(string name, string type, Sizes sizes)
        {
            Name = name;
            Type = type;
            Sizes = sizes;
        }
    }

    /// <summary>Progress of an epoch, in samples.</summary>
    public sealed class Progress
    {
        /// <summary>Samples read so far.</summary>
        public ulong Delivered { get; }
        /// <summary>Samples of the epoch; null if unknown, or if it has no end.</summary>
        public ulong? Expected { get; }
        /// <summary>The sweep of the next sample, from 0.</summary>
        public ulong Sweep { get; }

        internal Progress(ulong delivered, ulong? expected, ulong sweep)
        {
            Delivered = delivered;
            Expected = expected;
            Sweep = sweep;
        }
    }

    /// <summary>
    /// An epoch to start. Its size is one sweep over the data unless <see cref="Samples"/> or
    /// <see cref="Sweeps"/> is set.
    /// </summary>
    public sealed class Epoch
    {
        /// <summary>Samples of a minibatch of all workers together, at least 1.</summary>
        public ulong MinibatchSize { get; set; }
        /// <summary>Number of workers that share the data.</summary>
        public ulong Workers { get; set; } = 1;
        /// <summary>Rank of this worker, from 0. Required if there are several workers.</summary>
        public ulong? Rank { get; set; }
        /// <summary>Size in samples of all workers.</summary>
        public ulong? Samples { get; set; }
        /// <summary>Size in sweeps over the data. It overrides <see cref="Samples"/>.</summary>
        public ulong? Sweeps { get; set; }
        /// <summary>Number of the epoch, from 0.</summary>
        public ulong Index { get; set; }
        /// <summary>Whether a minibatch may continue past the end of a sweep.</summary>
        public bool CrossSweeps { get; set; } = true;

        internal Native.Epoch ToNative()
        {
            return new Native.Epoch
            {
                StructSize = Native.SizeOf<Native.Epoch>(),
                Workers = Workers,
                Rank = Rank ?? (Workers == 1 ? 0 : ulong.MaxValue),
                MinibatchSize = MinibatchSize,
                CrossSweeps = CrossSweeps ? 1UL : 0,
                Samples = Samples ?? Reader.OneSweep,
                Sweeps = Sweeps ?? ulong.MaxValue,
                Index = Index
            };
        }
    }
}
