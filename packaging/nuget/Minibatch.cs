// Minibatch.cs: minibatches and their streams. Arrays are copies; `Borrow` gives the memory itself.

using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Text;

namespace CntkReader
{
    /// <summary>
    /// A run of time steps in one lane (a parallel sequence of the layout) that belongs to one
    /// sequence, or to none (a gap).
    /// </summary>
    public struct Record
    {
        /// <summary>Number of the sequence in the minibatch, from 0; null for a gap.</summary>
        public ulong? Sequence { get; internal set; }
        /// <summary>The lane, from 0.</summary>
        public ulong Lane { get; internal set; }
        /// <summary>First time step; negative if it was in an earlier minibatch.</summary>
        public long Begin { get; internal set; }
        /// <summary>The time step after the last one.</summary>
        public ulong End { get; internal set; }
    }

    /// <summary>
    /// One stream of a minibatch: <see cref="Columns"/> columns of <see cref="SampleSize"/> values.
    /// Arrays are copies, and must be requested before the minibatch is disposed of.
    /// </summary>
    public sealed class StreamMinibatch
    {
        readonly Native.MinibatchHandle owner;
        readonly Native.StreamMinibatch parts;

        internal StreamMinibatch(Native.MinibatchHandle owner, Native.StreamMinibatch parts)
        {
            this.owner = owner;
            this.parts = parts;
        }

        /// <summary>Time steps.</summary>
        public int Steps { get { return (int)parts.Steps; } }
        /// <summary>Lanes: sequences side by side.</summary>
        public int Lanes { get { return (int)parts.Lanes; } }
        /// <summary>
        /// <c>Steps * Lanes</c>. Step t of lane s is column <c>t * Lanes + s</c>, or
        /// <c>s * Steps + t</c> if <see cref="IsSequenceMajor"/>.
        /// </summary>
        public int Columns { get { return (int)parts.Columns; } }
        /// <summary>Whether the samples of a sequence are adjacent columns.</summary>
        public bool IsSequenceMajor { get { return parts.SequenceMajor != 0; } }
        /// <summary>Columns with data.</summary>
        public int Samples { get { return (int)parts.Samples; } }
        /// <summary>Sequences with data.</summary>
        public int Sequences { get { return (int)parts.Sequences; } }
        /// <summary>Samples of the longest sequence.</summary>
        public int Longest { get { return (int)parts.Longest; } }
        /// <summary>Values per sample.</summary>
        public int SampleSize { get { return (int)parts.SampleSize; } }
        /// <summary>Number of values: of all columns (dense), or those stored (sparse).</summary>
        public int ValueCount { get { return (int)parts.ValueCount; } }
        /// <summary>Whether only stored values are in memory.</summary>
        public bool IsSparse { get { return parts.Storage == Native.Sparse; } }
        /// <summary>Type of the values.</summary>
        public ElementType Element { get { return (ElementType)parts.Element; } }

        /// <summary>The values of a stream of <see cref="ElementType.Float"/>.</summary>
        public float[] Floats()
        {
            Expect("Floats", ElementType.Float);
            var values = new float[ValueCount];
            Borrow(from => Marshal.Copy(from, values, 0, values.Length));
            return values;
        }

        /// <summary>The values of a stream of <see cref="ElementType.Double"/>.</summary>
        public double[] Doubles()
        {
            Expect("Doubles", ElementType.Double);
            var values = new double[ValueCount];
            Borrow(from => Marshal.Copy(from, values, 0, values.Length));
            return values;
        }

        /// <summary>The values of a stream of bytes or booleans.</summary>
        public byte[] Bytes()
        {
            Expect("Bytes", ElementType.UInt8, ElementType.Bool);
            var values = new byte[ValueCount];
            Borrow(from => Marshal.Copy(from, values, 0, values.Length));
            return values;
        }

        /// <summary>The values of a stream of 16-bit integers; the bits of 16-bit floats.</summary>
        public short[] Shorts()
        {
            Expect("Shorts", ElementType.Int16, ElementType.Float16, ElementType.BFloat16);
            var values = new short[ValueCount];
            Borrow(from => Marshal.Copy(from, values, 0, values.Length));
            return values;
        }

        /// <summary>The values of a stream of 32-bit integers: ids of words or classes.</summary>
        public int[] Ints()
        {
            Expect("Ints", ElementType.Int32);
            var values = new int[ValueCount];
            Borrow(from => Marshal.Copy(from, values, 0, values.Length));
            return values;
        }

        /// <summary>The values of a stream of 64-bit integers.</summary>
        public long[] Longs()
        {
            Expect("Longs", ElementType.Int64);
            var values = new long[ValueCount];
            Borrow(from => Marshal.Copy(from, values, 0, values.Length));
            return values;
        }

        void Expect(string method, params ElementType[] suitable)
        {
            if (Array.IndexOf(suitable, Element) >= 0) return;
            throw new InvalidOperationException(
                "The values of this stream are " + Element + "; " + method + "() returns others.");
        }

        /// <summary>Sparse: the index of each stored value in its column.</summary>
        public int[] Indices() { return Integers(parts.Indices, ValueCount); }

        /// <summary>
        /// Sparse: the position of each column's first stored value, followed by the number of
        /// stored values.
        /// </summary>
        public int[] ColumnOffsets() { return Integers(parts.ColumnOffsets, Columns + 1); }

        /// <summary>The columns of each sequence, and the gaps.</summary>
        public Record[] Records()
        {
            var records = new Record[(int)parts.RecordCount];
            int size = Marshal.SizeOf<Native.Record>();
            Hold(() =>
            {
                for (int i = 0; i < records.Length; ++i)
                {
                    var raw = Marshal.PtrToStructure<Native.Record>(parts.Records + i * size);
                    records[i] = new Record
                    {
                        Sequence = Reader.Known(raw.Sequence),
                        Lane = raw.Lane,
                        Begin = raw.Begin,
                        End = raw.End
                    };
                }
            });
            return records;
        }

        /// <summary>
        /// Calls <paramref name="use"/> with the address of the values, without a copy. The address
        /// is valid during the call, which must not write to it.
        /// </summary>
        public void Borrow(Action<IntPtr> use) { Hold(() => use(parts.Values)); }

        int[] Integers(IntPtr from, int count)
        {
            if (!IsSparse) throw new InvalidOperationException("This stream is dense.");
            var numbers = new int[count];
            Hold(() => Marshal.Copy(from, numbers, 0, count));
            return numbers;
        }

        // Uses the library's memory, which the minibatch keeps alive meanwhile.
        void Hold(Action use)
        {
            bool held = false;
            try
            {
                owner.DangerousAddRef(ref held);
                use();
            }
            finally
            {
                if (held) owner.DangerousRelease();
            }
        }
    }

    /// <summary>A minibatch, which the caller disposes of. It may outlive its reader.</summary>
    public sealed class Minibatch : IDisposable
    {
        readonly Native.MinibatchHandle handle;
        readonly Native.MinibatchInfo info;
        readonly IReadOnlyList<StreamDescription> streams;

        internal Minibatch(IntPtr raw, IReadOnlyList<StreamDescription> streams)
        {
            handle = new Native.MinibatchHandle(raw);
            this.streams = streams;
            info.StructSize = Native.SizeOf<Native.MinibatchInfo>();
            int status = Native.cntk_reader_minibatch_describe(handle, ref info, out IntPtr error);
            Native.Check(status, error);
        }

        /// <summary>
        /// Whether there is data. Workers in lockstep also get steps in which only other workers
        /// have data.
        /// </summary>
        public bool HasData { get { return info.StreamCount != UIntPtr.Zero; } }
        /// <summary>Whether the minibatch reaches or crosses the end of a sweep.</summary>
        public bool EndOfSweep { get { return info.EndOfSweep != 0; } }
        /// <summary>Whether it is the last minibatch of the epoch.</summary>
        public bool EndOfEpoch { get { return info.EndOfEpoch != 0; } }
        /// <summary>Number of sequences.</summary>
        public int Sequences { get { return (int)info.KeyCount; } }

        /// <summary>The key of a sequence as text; sequences are numbered from 0.</summary>
        public string Key(int sequence)
        {
            var bytes = new byte[64];
            for (;;)
            {
                int status = Native.cntk_reader_minibatch_get_key_text(
                    handle, (UIntPtr)sequence, bytes, (UIntPtr)bytes.Length, out UIntPtr full,
                    out IntPtr error);
                Native.Check(status, error);
                int length = (int)full;
                if (length < bytes.Length) return Encoding.UTF8.GetString(bytes, 0, length);
                bytes = new byte[length + 1];
            }
        }

        /// <summary>The stream with this name.</summary>
        public StreamMinibatch this[string name]
        {
            get
            {
                for (int id = 0; id < streams.Count; ++id)
                {
                    if (streams[id].Name != name) continue;
                    var parts = new Native.StreamMinibatch();
                    parts.StructSize = Native.SizeOf<Native.StreamMinibatch>();
                    int status = Native.cntk_reader_minibatch_stream_describe(
                        handle, (UIntPtr)id, ref parts, out IntPtr error);
                    Native.Check(status, error);
                    return new StreamMinibatch(handle, parts);
                }
                throw new ArgumentException("There is no stream '" + name + "'.");
            }
        }

        /// <summary>Releases the memory.</summary>
        public void Dispose() { handle.Dispose(); }
    }
}
