// Native.cs: the functions and structs of cntk_reader.h that the package uses, member by member.

using System;
using System.Runtime.InteropServices;
using System.Text;

namespace CntkReader
{
    static class Native
    {
        const string Library = "cntk_reader";

        public const uint Abi = 1;      // CNTK_READER_ABI_VERSION
        public const int Sparse = 1;    // CNTK_READER_STORAGE_SPARSE_CSC
        public const int Pending = 2;   // CNTK_READER_OUTCOME_PENDING
        public const int Ended = 1;     // CNTK_READER_OUTCOME_END_OF_EPOCH

        public sealed class ReaderHandle : SafeHandle
        {
            public ReaderHandle(IntPtr raw) : base(IntPtr.Zero, true) { SetHandle(raw); }
            public override bool IsInvalid { get { return handle == IntPtr.Zero; } }
            protected override bool ReleaseHandle() { cntk_reader_free(handle); return true; }
        }

        public sealed class MinibatchHandle : SafeHandle
        {
            public MinibatchHandle(IntPtr raw) : base(IntPtr.Zero, true) { SetHandle(raw); }
            public override bool IsInvalid { get { return handle == IntPtr.Zero; } }
            protected override bool ReleaseHandle()
            {
                cntk_reader_minibatch_release(handle);
                return true;
            }
        }

        // Fails if the library that was loaded has other structs than those below.
        public static void CheckAbi()
        {
            uint abi = cntk_reader_version_get_abi();
            if (abi == Abi) return;
            throw new InvalidOperationException(
                "The native library has ABI " + abi + ", and this assembly needs ABI " + Abi + ".");
        }

        // Throws if a call has failed, and frees its error object.
        public static void Check(int status, IntPtr error)
        {
            if (status == 0) return;
            var info = new ErrorInfo { StructSize = SizeOf<ErrorInfo>() };
            cntk_reader_error_describe(error, ref info);
            string text = Text(cntk_reader_error_get_text(error));
            var exception = new ReaderException((ErrorKind)status, text, info);
            cntk_reader_error_free(error);
            throw exception;
        }

        public static UIntPtr SizeOf<T>() { return (UIntPtr)Marshal.SizeOf<T>(); }

        // Converts a NUL-terminated UTF-8 string; null for NULL.
        public static string Text(IntPtr from)
        {
            if (from == IntPtr.Zero) return null;
            int length = 0;
            while (Marshal.ReadByte(from, length) != 0) ++length;
            var bytes = new byte[length];
            Marshal.Copy(from, bytes, 0, length);
            return Encoding.UTF8.GetString(bytes);
        }

        [StructLayout(LayoutKind.Sequential)]
        public struct ErrorInfo
        {
            public UIntPtr StructSize;
            public int Kind, ExceptionClass;
            public IntPtr Message, Detail, File;
            public ulong Offset, Line;
            public IntPtr Stream, Key;
            public ulong Column;
        }

        [StructLayout(LayoutKind.Sequential)]
        public struct Source
        {
            public UIntPtr StructSize;
            public IntPtr Text;
            public UIntPtr TextLength;
            public IntPtr File;
            public UIntPtr FileLength;
            public IntPtr Options;
            public IntPtr Deserializers;
            public UIntPtr DeserializerCount;
            public IntPtr Transforms;
            public UIntPtr TransformCount;
            public IntPtr Canceller;
            public IntPtr Reader;
            public UIntPtr ReaderLength;
        }

        [StructLayout(LayoutKind.Sequential)]
        public struct Info
        {
            public UIntPtr StructSize, StreamCount, MemberCount;
            public ulong Samples, Sequences, Chunks;
            public uint NumericKeys, Lockstep;
        }

        [StructLayout(LayoutKind.Sequential)]
        public struct MemberInfo
        {
            public UIntPtr StructSize;
            public IntPtr Name, TypeName;
            public ulong Samples, Sequences, Chunks;
        }

        [StructLayout(LayoutKind.Sequential)]
        public struct Progress
        {
            public UIntPtr StructSize;
            public ulong Delivered, Expected, Sweep;
        }

        [StructLayout(LayoutKind.Sequential)]
        public struct Memory
        {
            public UIntPtr StructSize;
            public ulong Window, Buffers, Index;
        }

        [StructLayout(LayoutKind.Sequential)]
        public struct StreamInfo
        {
            public UIntPtr StructSize;
            public IntPtr Name;
            public UIntPtr NameLength, Id;
            public int Storage, Element;
            public IntPtr Shape;
            public UIntPtr ShapeRank, SampleSize;
            public uint DefinesMbSize, IsBinary;
            public UIntPtr Classes;
        }

        [StructLayout(LayoutKind.Sequential)]
        public struct Epoch
        {
            public UIntPtr StructSize;
            public ulong Workers, Rank, MinibatchSize, TruncationLength, RightSplice, CrossSweeps;
            public ulong Samples, Sweeps, Index;
        }

        [StructLayout(LayoutKind.Sequential)]
        public struct MinibatchInfo
        {
            public UIntPtr StructSize;
            public uint EndOfSweep, EndOfEpoch;
            public UIntPtr StreamCount;
            public IntPtr Keys;
            public UIntPtr KeyCount;
            public uint IsStep, Reserved;
        }

        [StructLayout(LayoutKind.Sequential)]
        public struct Record
        {
            public ulong Sequence, Lane;
            public long Begin;
            public ulong End;
        }

        [StructLayout(LayoutKind.Sequential)]
        public struct StreamMinibatch
        {
            public UIntPtr StructSize, Steps, Lanes, Columns, Samples, Sequences;
            public IntPtr Records;
            public UIntPtr RecordCount;
            public ulong RightSplice;
            public int Storage, Element;
            public UIntPtr SampleSize;
            public IntPtr Values;
            public UIntPtr ValueCount;
            public IntPtr Indices, ColumnOffsets, Block;
            public UIntPtr BlockSize;
            public uint SequenceMajor, IsPacked;
            public UIntPtr Longest;
            public IntPtr Shape;
            public UIntPtr ShapeRank;
        }

        [DllImport(Library)]
        public static extern uint cntk_reader_version_get_abi();
        [DllImport(Library)]
        public static extern IntPtr cntk_reader_version_get_text();

        [DllImport(Library)]
        public static extern int cntk_reader_error_describe(IntPtr error, ref ErrorInfo info);
        [DllImport(Library)]
        public static extern IntPtr cntk_reader_error_get_text(IntPtr error);
        [DllImport(Library)]
        public static extern void cntk_reader_error_free(IntPtr error);

        [DllImport(Library)]
        public static extern int cntk_reader_open(
            ref Source source, out IntPtr reader, out IntPtr error);
        [DllImport(Library)]
        public static extern void cntk_reader_free(IntPtr reader);
        [DllImport(Library)]
        public static extern int cntk_reader_describe(
            ReaderHandle reader, ref Info info, out IntPtr error);
        [DllImport(Library)]
        public static extern int cntk_reader_member_describe(
            ReaderHandle reader, UIntPtr index, ref MemberInfo info, out IntPtr error);
        [DllImport(Library)]
        public static extern int cntk_reader_progress_get(
            ReaderHandle reader, ref Progress progress, out IntPtr error);
        [DllImport(Library)]
        public static extern int cntk_reader_memory_get(
            ReaderHandle reader, ref Memory memory, out IntPtr error);
        [DllImport(Library)]
        public static extern int cntk_reader_chunk_size_suggest(
            ReaderHandle reader, ulong workers, out ulong bytes, out IntPtr error);
        [DllImport(Library)]
        public static extern int cntk_reader_stream_describe(
            ReaderHandle reader, UIntPtr id, ref StreamInfo info, out IntPtr error);
        [DllImport(Library)]
        public static extern int cntk_reader_epoch_start(
            ReaderHandle reader, ref Epoch epoch, out IntPtr error);
        [DllImport(Library)]
        public static extern int cntk_reader_epoch_start_next(
            ReaderHandle reader, ref Epoch epoch, out ulong index, out IntPtr error);
        [DllImport(Library)]
        public static extern int cntk_reader_minibatch_next(
            ReaderHandle reader, ulong milliseconds, out IntPtr minibatch, out int outcome,
            out IntPtr error);

        [DllImport(Library)]
        public static extern int cntk_reader_minibatch_describe(
            MinibatchHandle minibatch, ref MinibatchInfo info, out IntPtr error);
        [DllImport(Library)]
        public static extern int cntk_reader_minibatch_stream_describe(
            MinibatchHandle minibatch, UIntPtr id, ref StreamMinibatch parts, out IntPtr error);
        [DllImport(Library)]
        public static extern int cntk_reader_minibatch_get_key_text(
            MinibatchHandle minibatch, UIntPtr sequence, byte[] text, UIntPtr capacity,
            out UIntPtr length, out IntPtr error);
        [DllImport(Library)]
        public static extern void cntk_reader_minibatch_release(IntPtr minibatch);

        [DllImport(Library)]
        public static extern int cntk_reader_checkpoint_save(
            ReaderHandle reader, out IntPtr buffer, out IntPtr error);
        [DllImport(Library)]
        public static extern int cntk_reader_checkpoint_restore(
            ReaderHandle reader, byte[] bytes, UIntPtr size, out IntPtr error);
        [DllImport(Library)]
        public static extern int cntk_reader_buffer_get_bytes(
            IntPtr buffer, out IntPtr bytes, out UIntPtr size, out IntPtr error);
        [DllImport(Library)]
        public static extern void cntk_reader_buffer_free(IntPtr buffer);
    }
}
