// Reader.cs: reads CNTK's training data from C#, over the C interface of cntk_reader.h.
//
// The runtime must find libcntk_reader.so (LD_LIBRARY_PATH, or next to the program). Works with
// .NET and Mono. Covers the needs of a training; the header has more.
//
// Readers and minibatches belong to the caller, who disposes of them; a minibatch may outlive its
// reader. Only one thread at a time may use a Reader. Every failure is thrown as a ReaderException.

using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Text;

namespace CntkReader
{
    // An error with its location. Unknown members are null or 0.
    public sealed class ReaderException : Exception
    {
        public int Kind { get; }        // A cntk_reader_status.
        public string File { get; }
        public ulong Line { get; }      // From 1.
        public ulong Column { get; }    // In a line of a configuration, from 1.
        public string Stream { get; }
        public string Key { get; }      // Of the sequence.

        internal ReaderException(int kind, string text, Native.ErrorInfo info) : base(text)
        {
            Kind = kind;
            File = Native.Text(info.File);
            Line = info.Line;
            Column = info.Column;
            Stream = Native.Text(info.Stream);
            Key = Native.Text(info.Key);
        }
    }

    // Types of values: cntk_reader_element in cntk_reader.h.
    public enum ElementType
    {
        Float = 1, Double = 2, Float16 = 4, Int16 = 6, UInt8 = 16, Int32 = 17, Int64 = 18, BFloat16 = 19, Bool = 20
    }

    public sealed class StreamDescription
    {
        public string Name { get; internal set; }
        public bool IsSparse { get; internal set; }
        public ElementType Element { get; internal set; }
        public int SampleSize { get; internal set; }    // Values per sample.
        public int Classes { get; internal set; }       // If the values are class numbers, their count; else 0.
    }

    // One stream of a minibatch: Columns columns of SampleSize values. Arrays are copies, and must
    // be requested before the minibatch is disposed of.
    public sealed class StreamMinibatch
    {
        readonly Native.MinibatchHandle owner;
        readonly Native.StreamMinibatch parts;

        internal StreamMinibatch(Native.MinibatchHandle owner, Native.StreamMinibatch parts)
        {
            this.owner = owner;
            this.parts = parts;
        }

        public int Steps { get { return (int)parts.Steps; } }
        public int Lanes { get { return (int)parts.Lanes; } }
        // Steps * Lanes; step t of lane s is column t * Lanes + s.
        public int Columns { get { return (int)parts.Columns; } }
        public int Samples { get { return (int)parts.Samples; } }   // Columns with data.
        public int Sequences { get { return (int)parts.Sequences; } }
        public int SampleSize { get { return (int)parts.SampleSize; } }
        public bool IsSparse { get { return parts.Storage == Native.Sparse; } }

        public ElementType Element { get { return (ElementType)parts.Element; } }

        // All values (dense), or the stored values (sparse), of a stream of floats.
        public float[] Values()
        {
            Expect(ElementType.Float);
            var values = new float[(int)parts.ValueCount];
            Borrow(() => Marshal.Copy(parts.Values, values, 0, values.Length));
            return values;
        }

        // All values of a stream of bytes: pixels.
        public byte[] Bytes()
        {
            Expect(ElementType.UInt8);
            var values = new byte[(int)parts.ValueCount];
            Borrow(() => Marshal.Copy(parts.Values, values, 0, values.Length));
            return values;
        }

        // All values of a stream of 32-bit integers: words, classes.
        public int[] Ids()
        {
            Expect(ElementType.Int32);
            var values = new int[(int)parts.ValueCount];
            Borrow(() => Marshal.Copy(parts.Values, values, 0, values.Length));
            return values;
        }

        void Expect(ElementType wanted)
        {
            if (Element != wanted)
                throw new InvalidOperationException("The values of this stream are " + Element + ", not " + wanted + ".");
        }

        // Sparse: the index of each stored value in its column, and the offset of each column's
        // first value, followed by the number of values.
        public int[] Indices() { return Integers(parts.Indices, (int)parts.ValueCount); }
        public int[] ColumnOffsets() { return Integers(parts.ColumnOffsets, Columns + 1); }

        int[] Integers(IntPtr from, int count)
        {
            if (!IsSparse) throw new InvalidOperationException("This stream is dense.");
            var numbers = new int[count];
            Borrow(() => Marshal.Copy(from, numbers, 0, count));
            return numbers;
        }

        // Reads the library's memory, which the minibatch keeps alive meanwhile.
        void Borrow(Action read)
        {
            bool held = false;
            try
            {
                owner.DangerousAddRef(ref held);
                read();
            }
            finally
            {
                if (held) owner.DangerousRelease();
            }
        }
    }

    // A minibatch.
    public sealed class Minibatch : IDisposable
    {
        readonly Native.MinibatchHandle handle;
        readonly Native.MinibatchInfo info;
        readonly IReadOnlyList<StreamDescription> streams;

        internal Minibatch(IntPtr raw, IReadOnlyList<StreamDescription> streams)
        {
            handle = new Native.MinibatchHandle(raw);
            this.streams = streams;
            info.StructSize = (UIntPtr)Marshal.SizeOf<Native.MinibatchInfo>();
            Native.Check(Native.cntk_reader_minibatch_describe(handle, ref info, out IntPtr error), error);
        }

        public bool HasData { get { return info.StreamCount != UIntPtr.Zero; } }
        public bool EndOfSweep { get { return info.EndOfSweep != 0; } }
        public bool EndOfEpoch { get { return info.EndOfEpoch != 0; } }     // The last, or past it.

        public StreamMinibatch this[string name]
        {
            get
            {
                for (int id = 0; id < streams.Count; ++id)
                {
                    if (streams[id].Name != name) continue;
                    var parts = new Native.StreamMinibatch();
                    parts.StructSize = (UIntPtr)Marshal.SizeOf<Native.StreamMinibatch>();
                    int status = Native.cntk_reader_minibatch_stream_describe(handle, (UIntPtr)id, ref parts, out IntPtr error);
                    Native.Check(status, error);
                    return new StreamMinibatch(handle, parts);
                }
                throw new ArgumentException("There is no stream '" + name + "'.");
            }
        }

        public void Dispose() { handle.Dispose(); }
    }

    // Sizes of data. Unknown members are null.
    public sealed class Sizes
    {
        public ulong? Samples { get; }      // In one sweep, in the unit of minibatch and epoch sizes.
        public ulong? Sequences { get; }
        public ulong? Chunks { get; }

        internal Sizes(ulong? samples, ulong? sequences, ulong? chunks)
        {
            Samples = samples;
            Sequences = sequences;
            Chunks = chunks;
        }
    }

    // One of a reader's deserializers.
    public sealed class Member
    {
        public string Name { get; }         // Its file.
        public string Type { get; }         // Its `type` in the configuration.
        public Sizes Sizes { get; }

        internal Member(string name, string type, Sizes sizes)
        {
            Name = name;
            Type = type;
            Sizes = sizes;
        }
    }

    // Progress of an epoch, in samples.
    public sealed class Progress
    {
        public ulong Delivered { get; }
        public ulong? Expected { get; }     // null: unknown, or the epoch has no end.
        public ulong Sweep { get; }         // From 0, of the next sample.

        internal Progress(ulong delivered, ulong? expected, ulong sweep)
        {
            Delivered = delivered;
            Expected = expected;
            Sweep = sweep;
        }
    }

    public sealed class Reader : IDisposable
    {
        public const ulong OneSweep = 0x3fffffffffffffff;
        public const ulong Unlimited = ulong.MaxValue;

        readonly Native.ReaderHandle handle;

        public IReadOnlyList<StreamDescription> Streams { get; }

        // Opens a reader from the text of a configuration, in CNTK's language.
        public Reader(string configuration)
        {
            byte[] text = Encoding.UTF8.GetBytes(configuration);
            GCHandle pinned = GCHandle.Alloc(text, GCHandleType.Pinned);
            int status;
            IntPtr raw, error;
            try
            {
                var source = new Native.Source
                {
                    StructSize = (UIntPtr)Marshal.SizeOf<Native.Source>(),
                    Text = pinned.AddrOfPinnedObject(), TextLength = (UIntPtr)text.Length
                };
                status = Native.cntk_reader_open(ref source, out raw, out error);
            }
            finally
            {
                pinned.Free();
            }
            Native.Check(status, error);
            handle = new Native.ReaderHandle(raw);
            Streams = DescribeStreams();
        }

        // Sizes of the data. Members that are not known yet are null.
        public Sizes Sizes
        {
            get
            {
                Native.Info info = Describe(handle);
                return new Sizes(Known(info.Samples), Known(info.Sequences), Known(info.Chunks));
            }
        }

        // The deserializers, in the order of the configuration.
        public List<Member> Members
        {
            get
            {
                var members = new List<Member>();
                for (int i = 0, count = (int)Describe(handle).MemberCount; i < count; ++i)
                {
                    var info = new Native.MemberInfo { StructSize = (UIntPtr)Marshal.SizeOf<Native.MemberInfo>() };
                    int status = Native.cntk_reader_member_describe(handle, (UIntPtr)i, ref info, out IntPtr error);
                    Native.Check(status, error);
                    var sizes = new Sizes(Known(info.Samples), Known(info.Sequences), Known(info.Chunks));
                    members.Add(new Member(Native.Text(info.Name), Native.Text(info.TypeName), sizes));
                }
                return members;
            }
        }

        // Progress of the epoch up to the most recently read minibatch.
        public Progress Progress
        {
            get
            {
                var raw = new Native.Progress { StructSize = (UIntPtr)Marshal.SizeOf<Native.Progress>() };
                Native.Check(Native.cntk_reader_progress_get(handle, ref raw, out IntPtr error), error);
                return new Progress(raw.Delivered, Known(raw.Expected), raw.Sweep);
            }
        }

        // Memory held by the reader, in bytes: chunks, minibatches and tables.
        public ulong MemoryInBytes
        {
            get
            {
                var raw = new Native.Memory { StructSize = (UIntPtr)Marshal.SizeOf<Native.Memory>() };
                Native.Check(Native.cntk_reader_memory_get(handle, ref raw, out IntPtr error), error);
                return raw.Window + raw.Buffers + raw.Index;
            }
        }

        // Suggests a chunkSizeInBytes with which this many workers share the data evenly.
        public ulong SuggestChunkSize(ulong workers)
        {
            int status = Native.cntk_reader_chunk_size_suggest(handle, workers, out ulong bytes, out IntPtr error);
            Native.Check(status, error);
            return bytes;
        }

        // Starts an epoch of this many samples, or of OneSweep, with the number `index`, from 0.
        public void StartEpoch(ulong minibatchSize, ulong samples = OneSweep, ulong index = 0, ulong workers = 1, ulong rank = 0)
        {
            var epoch = new Native.Epoch
            {
                StructSize = (UIntPtr)Marshal.SizeOf<Native.Epoch>(), Workers = workers, Rank = rank,
                MinibatchSize = minibatchSize, CrossSweeps = 1, Samples = samples, Sweeps = Unlimited, Index = index
            };
            Native.Check(Native.cntk_reader_epoch_start(handle, ref epoch, out IntPtr error), error);
        }

        // Reads the next minibatch. Past the end of the epoch, it has no data.
        public Minibatch GetMinibatch()
        {
            Native.Check(Native.cntk_reader_minibatch_read(handle, out IntPtr raw, out IntPtr error), error);
            return new Minibatch(raw, Streams);
        }

        // Saves the position after the most recently read minibatch, as opaque bytes.
        public byte[] SaveCheckpoint()
        {
            Native.Check(Native.cntk_reader_checkpoint_save(handle, out IntPtr buffer, out IntPtr error), error);
            try
            {
                Native.Check(Native.cntk_reader_buffer_get_bytes(buffer, out IntPtr from, out UIntPtr size, out error), error);
                var bytes = new byte[(int)size];
                Marshal.Copy(from, bytes, 0, bytes.Length);
                return bytes;
            }
            finally
            {
                Native.cntk_reader_buffer_free(buffer);
            }
        }

        // Restores a checkpoint, and continues in its epoch. A new reader needs no StartEpoch
        // before.
        public void RestoreCheckpoint(byte[] bytes)
        {
            int status = Native.cntk_reader_checkpoint_restore(handle, bytes, (UIntPtr)bytes.Length, out IntPtr error);
            Native.Check(status, error);
        }

        public void Dispose() { handle.Dispose(); }

        static Native.Info Describe(Native.ReaderHandle handle)
        {
            var info = new Native.Info { StructSize = (UIntPtr)Marshal.SizeOf<Native.Info>() };
            Native.Check(Native.cntk_reader_describe(handle, ref info, out IntPtr error), error);
            return info;
        }

        static ulong? Known(ulong number) { return number == ulong.MaxValue ? (ulong?)null : number; }

        List<StreamDescription> DescribeStreams()
        {
            IntPtr error;
            var streams = new List<StreamDescription>();
            for (int id = 0, count = (int)Describe(handle).StreamCount; id < count; ++id)
            {
                var info = new Native.StreamInfo { StructSize = (UIntPtr)Marshal.SizeOf<Native.StreamInfo>() };
                Native.Check(Native.cntk_reader_stream_describe(handle, (UIntPtr)id, ref info, out error), error);
                streams.Add(new StreamDescription
                {
                    Name = Native.Text(info.Name), IsSparse = info.Storage == Native.Sparse,
                    Element = (ElementType)info.Element, SampleSize = (int)info.SampleSize,
                    Classes = (int)info.Classes
                });
            }
            return streams;
        }
    }
}
