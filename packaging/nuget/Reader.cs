// Reader.cs: reads CNTK's training data, over the C interface of cntk_reader.h.

using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;

namespace CntkReader
{
    /// <summary>
    /// Reads, shuffles and packs training data. The caller disposes of readers and of minibatches;
    /// a minibatch may outlive its reader. Only one thread at a time may use a reader. Each failure
    /// is thrown as a <see cref="ReaderException"/>.
    /// </summary>
    public sealed class Reader : IDisposable
    {
        internal const ulong OneSweep = 0x3fffffffffffffff;     // CNTK_READER_ONE_SWEEP

        // How long a call waits before it looks at its CancellationToken.
        const ulong Milliseconds = 50;

        readonly Native.ReaderHandle handle;

        /// <summary>The streams, in the order of the configuration.</summary>
        public IReadOnlyList<StreamDescription> Streams { get; }

        /// <summary>Version of the native library.</summary>
        public static string LibraryVersion
        {
            get { return Native.Text(Native.cntk_reader_version_get_text()); }
        }

        /// <summary>Opens a reader from the text of a configuration, in CNTK's language.</summary>
        /// <param name="configuration">The text. Relative paths start in the current folder.
        /// </param>
        /// <param name="section">The keys that lead to the reader's section, such as
        /// <c>train.reader</c>, if the configuration has several; else null.</param>
        public Reader(string configuration, string section = null)
            : this(configuration, null, section) { }

        /// <summary>Opens a reader from a configuration file. Its includes are followed.</summary>
        /// <param name="path">The file.</param>
        /// <param name="section">As for the constructor.</param>
        public static Reader FromFile(string path, string section = null)
        {
            return new Reader(null, path, section);
        }

        Reader(string text, string file, string section)
        {
            Native.CheckAbi();
            var pinned = new List<GCHandle>();
            int status;
            IntPtr raw, error;
            try
            {
                var source = new Native.Source { StructSize = Native.SizeOf<Native.Source>() };
                source.Text = Pin(text, pinned, out source.TextLength);
                source.File = Pin(file, pinned, out source.FileLength);
                source.Reader = Pin(section, pinned, out source.ReaderLength);
                status = Native.cntk_reader_open(ref source, out raw, out error);
            }
            finally
            {
                foreach (GCHandle one in pinned) one.Free();
            }
            Native.Check(status, error);
            handle = new Native.ReaderHandle(raw);
            Streams = DescribeStreams();
        }

        // Returns the address of a text in UTF-8, which stays there until it is freed; 0 for null.
        static IntPtr Pin(string text, List<GCHandle> pinned, out UIntPtr length)
        {
            length = UIntPtr.Zero;
            if (text == null) return IntPtr.Zero;
            // The address of an empty array need not be one.
            byte[] bytes = Encoding.UTF8.GetBytes(text + "\0");
            length = (UIntPtr)(bytes.Length - 1);
            GCHandle handle = GCHandle.Alloc(bytes, GCHandleType.Pinned);
            pinned.Add(handle);
            return handle.AddrOfPinnedObject();
        }

        /// <summary>Sizes of the data, as far as they are known yet.</summary>
        public Sizes Sizes
        {
            get
            {
                Native.Info info = Describe(handle);
                return SizesOf(info.Samples, info.Sequences, info.Chunks);
            }
        }

        /// <summary>
        /// Whether all workers take part in each step of an epoch, some of them without data.
        /// </summary>
        public bool IsLockstep { get { return Describe(handle).Lockstep != 0; } }

        /// <summary>The deserializers, in the order of the configuration.</summary>
        public IReadOnlyList<Member> Members
        {
            get
            {
                var members = new List<Member>();
                for (int i = 0, count = (int)Describe(handle).MemberCount; i < count; ++i)
                {
                    var info = new Native.MemberInfo();
                    info.StructSize = Native.SizeOf<Native.MemberInfo>();
                    int status = Native.cntk_reader_member_describe(
                        handle, (UIntPtr)i, ref info, out IntPtr error);
                    Native.Check(status, error);
                    string name = Native.Text(info.Name), type = Native.Text(info.TypeName);
                    Sizes sizes = SizesOf(info.Samples, info.Sequences, info.Chunks);
                    members.Add(new Member(name, type, sizes));
                }
                return members;
            }
        }

        /// <summary>Progress of the epoch up to the most recently read minibatch.</summary>
        public Progress Progress
        {
            get
            {
                var raw = new Native.Progress { StructSize = Native.SizeOf<Native.Progress>() };
                int status = Native.cntk_reader_progress_get(handle, ref raw, out IntPtr error);
                Native.Check(status, error);
                return new Progress(raw.Delivered, Known(raw.Expected), raw.Sweep);
            }
        }

        /// <summary>Memory held by the reader, in bytes: chunks, minibatches and tables.</summary>
        public ulong MemoryInBytes
        {
            get
            {
                var raw = new Native.Memory { StructSize = Native.SizeOf<Native.Memory>() };
                int status = Native.cntk_reader_memory_get(handle, ref raw, out IntPtr error);
                Native.Check(status, error);
                return raw.Window + raw.Buffers + raw.Index;
            }
        }

        /// <summary>
        /// Suggests a <c>chunkSizeInBytes</c> with which this many workers share the data evenly.
        /// </summary>
        public ulong SuggestChunkSize(ulong workers)
        {
            int status = Native.cntk_reader_chunk_size_suggest(
                handle, workers, out ulong bytes, out IntPtr error);
            Native.Check(status, error);
            return bytes;
        }

        /// <summary>Starts an epoch: moves to its first sample.</summary>
        public void StartEpoch(Epoch epoch)
        {
            Native.Epoch raw = epoch.ToNative();
            Native.Check(Native.cntk_reader_epoch_start(handle, ref raw, out IntPtr error), error);
        }

        /// <summary>
        /// Starts the epoch after the current one, whatever <see cref="Epoch.Index"/> is, and
        /// returns its number. After a checkpoint was restored, the first call continues with the
        /// rest of the checkpoint's epoch.
        /// </summary>
        public ulong StartNextEpoch(Epoch epoch)
        {
            Native.Epoch raw = epoch.ToNative();
            int status = Native.cntk_reader_epoch_start_next(
                handle, ref raw, out ulong index, out IntPtr error);
            Native.Check(status, error);
            return index;
        }

        /// <summary>
        /// Reads the next minibatch of the epoch, which the caller disposes of; null at the end of
        /// the epoch.
        /// </summary>
        /// <param name="cancellation">Ends the wait with an OperationCanceledException. Nothing is
        /// lost: a later call returns the minibatch.</param>
        public Minibatch Next(CancellationToken cancellation = default(CancellationToken))
        {
            ulong wait = cancellation.CanBeCanceled ? Milliseconds : ulong.MaxValue;
            for (;;)
            {
                cancellation.ThrowIfCancellationRequested();
                int status = Native.cntk_reader_minibatch_next(
                    handle, wait, out IntPtr raw, out int outcome, out IntPtr error);
                Native.Check(status, error);
                if (outcome == Native.Ended) return null;
                if (outcome != Native.Pending) return new Minibatch(raw, Streams);
            }
        }

        /// <summary>
        /// Enumerates the minibatches of the rest of the epoch. Each is disposed of when the loop's
        /// body has ended.
        /// </summary>
        public IEnumerable<Minibatch> Minibatches()
        {
            for (Minibatch next; (next = Next()) != null;)
                using (next)
                    yield return next;
        }

        /// <summary>
        /// Saves the position after the most recently read minibatch, as opaque bytes.
        /// </summary>
        public byte[] SaveCheckpoint()
        {
            int status = Native.cntk_reader_checkpoint_save(
                handle, out IntPtr buffer, out IntPtr error);
            Native.Check(status, error);
            try
            {
                status = Native.cntk_reader_buffer_get_bytes(
                    buffer, out IntPtr from, out UIntPtr size, out error);
                Native.Check(status, error);
                var bytes = new byte[(int)size];
                Marshal.Copy(from, bytes, 0, bytes.Length);
                return bytes;
            }
            finally
            {
                Native.cntk_reader_buffer_free(buffer);
            }
        }

        /// <summary>
        /// Restores a checkpoint, and continues in its epoch. A new reader needs no
        /// <see cref="StartEpoch"/> before.
        /// </summary>
        public void RestoreCheckpoint(byte[] bytes)
        {
            int status = Native.cntk_reader_checkpoint_restore(
                handle, bytes, (UIntPtr)bytes.Length, out IntPtr error);
            Native.Check(status, error);
        }

        /// <summary>Closes the reader.</summary>
        public void Dispose() { handle.Dispose(); }

        static Native.Info Describe(Native.ReaderHandle handle)
        {
            var info = new Native.Info { StructSize = Native.SizeOf<Native.Info>() };
            Native.Check(Native.cntk_reader_describe(handle, ref info, out IntPtr error), error);
            return info;
        }

        static Sizes SizesOf(ulong samples, ulong sequences, ulong chunks)
        {
            return new Sizes(Known(samples), Known(sequences), Known(chunks));
        }

        internal static ulong? Known(ulong number)
        {
            return number == ulong.MaxValue ? (ulong?)null : number;
        }

        List<StreamDescription> DescribeStreams()
        {
            var streams = new List<StreamDescription>();
            for (int id = 0, count = (int)Describe(handle).StreamCount; id < count; ++id)
            {
                var info = new Native.StreamInfo();
                info.StructSize = Native.SizeOf<Native.StreamInfo>();
                int status = Native.cntk_reader_stream_describe(
                    handle, (UIntPtr)id, ref info, out IntPtr error);
                Native.Check(status, error);
                var shape = new int[(int)info.ShapeRank];
                for (int i = 0; i < shape.Length; ++i)
                    shape[i] = (int)Marshal.ReadIntPtr(info.Shape, i * IntPtr.Size);
                streams.Add(new StreamDescription
                {
                    Name = Native.Text(info.Name), IsSparse = info.Storage == Native.Sparse,
                    Element = (ElementType)info.Element, SampleSize = (int)info.SampleSize,
                    Shape = shape, Classes = (int)info.Classes
                });
            }
            return streams;
        }
    }
}
