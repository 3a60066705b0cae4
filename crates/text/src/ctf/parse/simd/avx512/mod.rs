//! [`Simd`] with AVX-512: a block of 64 bytes is one register, a comparison of its bytes is a mask,
//! and eight numbers are converted in one register, whatever their lengths.
//!
//! `vpcompressb` packs the bytes selected by a mask together, such as the places of its bits;
//! `vpermb` copies each number's digits from there into a separate lane. No step depends on the
//! lengths of the numbers, and no branch has to be predicted.
//!
//! Code used more than once is in functions that are always inlined, not in closures: a closure
//! that the compiler does not inline is compiled without AVX-512, and each of its instructions
//! becomes a call.

mod floats;

use super::{
    Classes, Entries, LANES, MAX_ENTRIES, MAX_NUMBERS, Pattern, Scaled, Simd, Tokens, Wholes, Window,
    has_five,
};
use crate::ctf::parse::number::DIVISORS;
use cntk_reader_core::cpu::processor::Avx512;
use cntk_reader_core::memory::compact::Value;
use std::arch::x86_64::*;

/// Register whose bytes are `$rule` of their place `$i`. Only for code that is known to run with
/// AVX-512.
macro_rules! bytes {
    (|$i:ident| $rule:expr) => {{
        static BYTES: [u8; 64] = {
            let mut bytes = [0; 64];
            let mut $i = 0u8;
            while $i < 64 {
                bytes[$i as usize] = $rule;
                $i += 1;
            }
            bytes
        };
        _mm512_loadu_si512(BYTES.as_ptr().cast())
    }};
}

impl Simd for Avx512 {
    const UNIFORM_LINES: bool = true;
    // Read value by value, samples of two values parse 5 to 10 % faster, samples of three 2 %
    // slower.
    const FEW: usize = 2;

    #[inline(always)]
    fn classify(self, text: Window<'_>) -> Classes {
        let text = load::<0>(self, text);
        // SAFETY: the `Avx512` value proves CPU support.
        let digit = unsafe {
            let less_zero = _mm512_sub_epi8(text, _mm512_set1_epi8(0x30));
            _mm512_cmplt_epu8_mask(less_zero, _mm512_set1_epi8(10))
        };
        Classes {
            space: is_byte(self, text, b' ') | is_byte(self, text, b'\t'),
            digit,
            dot: is_byte(self, text, b'.'),
            minus: is_byte(self, text, b'-'),
            colon: is_byte(self, text, b':'),
        }
    }

    #[inline(always)]
    fn equal(self, text: Window<'_>, byte: u8) -> u64 {
        is_byte(self, load::<0>(self, text), byte)
    }

    #[inline(always)]
    fn printable(self, text: Window<'_>) -> u64 {
        let text = load::<0>(self, text);
        // SAFETY: the `Avx512` value proves CPU support.
        unsafe { _mm512_cmpgt_epi8_mask(text, _mm512_set1_epi8(0x20)) }
    }

    #[inline(always)]
    fn lowest(self, bits: u64, count: u32) -> u64 {
        self.avx2().lowest(bits, count)
    }

    #[inline(always)]
    fn extract(self, bits: u64, mask: u64) -> u64 {
        self.avx2().extract(bits, mask)
    }

    #[inline(always)]
    fn follows(self, text: Window<'_>, at: u64, marks: u64, count: u32, pattern: &Pattern) -> bool {
        let (at, marks) = (places(self, at), places(self, marks));
        let text = load::<0>(self, text);
        let Pattern { words, masks, distances } = pattern;
        // SAFETY: the `Avx512` value proves CPU support; `words` and `masks` have 64 bytes each,
        // `distances` has 8.
        unsafe {
            let words_at =
                _mm512_add_epi8(spread::<1>(self, at, 0), _mm512_set1_epi64(0x0807_0605_0403_0201));
            let found = _mm512_permutexvar_epi8(words_at, text);
            let difference = _mm512_xor_si512(found, _mm512_loadu_si512(words.as_ptr().cast()));
            let differing = _mm512_test_epi64_mask(difference, _mm512_loadu_si512(masks.as_ptr().cast()));
            let distances = _mm_loadl_epi64(distances.as_ptr().cast());
            let expected = _mm_add_epi8(_mm512_castsi512_si128(at), distances);
            let apart = _mm_cmpneq_epi8_mask(expected, _mm512_castsi512_si128(marks));
            (u64::from(differing) | u64::from(apart)) & _bzhi_u64(0xff, count) == 0
        }
    }

    #[inline(always)]
    fn plain_numbers<T: Value>(self, text: Window<'_>, tokens: &Tokens, out: &mut [T; MAX_NUMBERS]) -> bool {
        if tokens.dot | has_five(tokens.digit) == 0 {
            short_integers(self, text, tokens, out);
            return true;
        }
        if size_of::<T>() == size_of::<f32>()
            && let Some(firsts) = tokens.firsts_if_short()
        {
            floats::short_numbers(self, text, tokens, firsts, out);
            return true;
        }
        let Some(wholes) = tokens.wholes() else { return false };
        if tokens.ends == 0 {
            return true;
        }
        if wholes.has_long {
            convert::<T, true>(self, text, tokens, wholes, out);
        } else {
            convert::<T, false>(self, text, tokens, wholes, out);
        }
        true
    }

    #[inline(always)]
    fn entries<T: Value>(
        self,
        text: Window<'_>,
        entries: Entries,
        limit: u32,
        indices: &mut [i32; MAX_ENTRIES],
        values: &mut [T; MAX_ENTRIES],
    ) -> bool {
        let count = entries.ends.count_ones();
        // A minus becomes a zero before its number.
        let (_, digits) = digits_or_zeros(self, load::<0>(self, text));
        let places = places(self, entries.starts | entries.colons | entries.ends);
        let ([first_indices, second_indices], _) = indices.as_chunks_mut::<LANES>() else { return false };
        let ([first_values, second_values], _) = values.as_chunks_mut::<LANES>() else { return false };
        let order = in_turn(self, &[0, 1, 2, 3, 4, 5, 6, 7]);
        // SAFETY: the `Avx512` value proves CPU support.
        let limits = unsafe { _mm256_set1_epi32(limit as i32) };
        let first = convert_entries(self, digits, places, 0);
        let mut large = store_entries(self, first, order, limits, first_indices, first_values);
        if count > LANES as u32 {
            let second = convert_entries(self, digits, places, LANES);
            large |= store_entries(self, second, order, limits, second_indices, second_values) << LANES;
        }
        large & ((1 << count.min(MAX_ENTRIES as u32)) - 1) == 0
    }

    #[inline(always)]
    fn decimal_entries<T: Value>(
        self,
        text: Window<'_>,
        entries: Entries,
        limit: u32,
        indices: &mut [i32; MAX_ENTRIES],
        values: &mut [T; MAX_ENTRIES],
    ) -> Option<bool> {
        if size_of::<T>() != size_of::<f32>() {
            return None;
        }
        Some(floats::decimal_entries(self, text, entries, limit, indices, values))
    }

    #[inline(always)]
    fn scaled_numbers<T: Value>(
        self,
        text: Window<'_>,
        numbers: &Scaled,
        out: &mut [T; MAX_ENTRIES],
    ) -> bool {
        size_of::<T>() == size_of::<f32>() && floats::scaled_numbers(self, text, numbers, out)
    }

    #[inline(always)]
    fn scaled_entries<T: Value>(
        self,
        text: Window<'_>,
        entries: Entries,
        numbers: &Scaled,
        limit: u32,
        indices: &mut [i32; MAX_ENTRIES],
        values: &mut [T; MAX_ENTRIES],
    ) -> Option<bool> {
        if size_of::<T>() != size_of::<f32>() {
            return None;
        }
        floats::scaled_entries(self, text, entries, numbers, limit, indices, values)
    }

    #[inline(always)]
    fn entries_in_order<T: Value>(
        self,
        text: Window<'_>,
        entries: Entries,
        order: &[u32; LANES],
        limits: &[u32; LANES],
        indices: &mut [i32; LANES],
        values: &mut [T; LANES],
    ) -> bool {
        let places = places(self, entries.starts | entries.colons | entries.ends);
        let numbers = convert_entries(self, digits(self, load::<0>(self, text)), places, 0);
        // SAFETY: the `Avx512` value proves CPU support; the 32 bytes are those of `limits`.
        let limits = unsafe { _mm256_loadu_si256(limits.as_ptr().cast()) };
        store_entries(self, numbers, in_turn(self, order), limits, indices, values) == 0
    }
}

/// Converts tokens without points and with at most 4 digits: computes the number that ends at each
/// byte, then selects the numbers at the ends.
#[inline(always)]
fn short_integers<T: Value>(simd: Avx512, text: Window<'_>, tokens: &Tokens, out: &mut [T; MAX_NUMBERS]) {
    let Tokens { digit, minus, ends, .. } = *tokens;
    // One bit for each number, at its first byte, which may be a sign.
    let token = digit | minus;
    let mut negative = simd.extract(minus, token & !(token << 1));
    // A byte counts if all bytes between it and the end are digits.
    let two = digit << 1;
    let three = two & (digit << 2);
    let four = three & (digit << 3);
    let lasts = ends >> 1;
    let (halves, _) = out.as_chunks_mut::<16>();
    // SAFETY: the `Avx512` value proves CPU support; memory is accessed only by `load`, `bytes!`
    // and `store_integers`.
    unsafe {
        let zero = _mm512_set1_epi8(0x30);
        // Indexed by the lower half of a byte.
        let tens = _mm_setr_epi8(0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 0, 0, 0, 0, 0, 0);
        let tens = _mm512_broadcast_i32x4(tens);
        let low = _mm512_sub_epi8(load::<0>(simd, text), zero);
        let low = _mm512_add_epi8(low, _mm512_maskz_shuffle_epi8(two, tens, load::<1>(simd, text)));
        let high = _mm512_maskz_sub_epi8(three, load::<2>(simd, text), zero);
        let high = _mm512_add_epi8(high, _mm512_maskz_shuffle_epi8(four, tens, load::<3>(simd, text)));
        // A block has at most 32 numbers.
        let low = _mm512_maskz_compress_epi8(lasts, low);
        let high = _mm512_castsi512_si256(_mm512_maskz_compress_epi8(lasts, high));
        let both = _mm512_inserti64x4::<1>(low, high);
        for (half, out) in halves.iter_mut().enumerate() {
            let from = _mm512_add_epi8(bytes!(|i| i / 4 + i % 2 * 32), _mm512_set1_epi8(16 * half as i8));
            let pairs = _mm512_permutexvar_epi8(from, both);
            let weights = _mm512_set1_epi32(0x6401);
            let numbers = _mm512_dpbusd_epi32(_mm512_setzero_si512(), pairs, weights);
            store_integers(simd, numbers, negative as u16, out);
            negative >>= 16;
        }
    }
}

/// Converts tokens with fractions of up to 8 digits, or fewer than [`super::TOO_LONG`] if `LONG`.
#[inline(always)]
fn convert<T: Value, const LONG: bool>(
    simd: Avx512,
    text: Window<'_>,
    tokens: &Tokens,
    wholes: Wholes,
    out: &mut [T; MAX_NUMBERS],
) {
    let text = load::<0>(simd, text);
    let total = tokens.ends.count_ones() as usize;
    let Wholes { firsts, ends, .. } = wholes;
    let (firsts_at, whole_ends_at, ends_at) =
        (places(simd, firsts), places(simd, ends), places(simd, tokens.ends));
    // SAFETY: the `Avx512` value proves CPU support. Memory is read by `bytes!`, from a table of 8
    // doubles, and from DIVISORS, where the index is limited to the last element; it is written by
    // `store`.
    unsafe {
        let digits = _mm512_sub_epi8(text, _mm512_set1_epi8(0x30));
        let mut negative = _pext_u64(tokens.minus << 1, firsts);
        let mut lanes = bytes!(|i| i / 8);
        for (group, out) in out.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            if group * LANES >= total {
                return;
            }
            // In all bytes of a lane. Lanes after the last number have no digits: all their places
            // are 0.
            let first = _mm512_permutexvar_epi8(lanes, firsts_at);
            let whole_end = _mm512_permutexvar_epi8(lanes, whole_ends_at);
            let end = _mm512_permutexvar_epi8(lanes, ends_at);
            let before_first = _mm512_sub_epi8(first, _mm512_set1_epi8(1));
            let whole = _mm512_cvtepi64_pd(spelt(simd, digits, before_first, whole_end));
            let (fraction, divisor) = if LONG {
                // As in `number::run`: 16 digits form an integer, further ones are added one by
                // one.
                let stop = _mm512_min_epi8(end, _mm512_add_epi8(whole_end, _mm512_set1_epi8(17)));
                let high = spelt(simd, digits, whole_end, _mm512_sub_epi8(stop, _mm512_set1_epi8(8)));
                let scaled = _mm512_mul_epu32(high, _mm512_set1_epi64(100_000_000));
                let low = spelt(simd, digits, whole_end, stop);
                let mut fraction = _mm512_cvtepi64_pd(_mm512_add_epi64(scaled, low));
                let mut at = stop;
                loop {
                    let is_part = _mm512_cmplt_epi64_mask(at, end);
                    if is_part == 0 {
                        break;
                    }
                    let digit = _mm512_permutexvar_epi8(at, digits);
                    let digit = _mm512_cvtepi64_pd(_mm512_and_si512(digit, _mm512_set1_epi64(15)));
                    let tenfold = _mm512_mul_pd(fraction, _mm512_set1_pd(10.0));
                    fraction = _mm512_mask_add_pd(fraction, is_part, tenfold, digit);
                    at = _mm512_add_epi8(at, _mm512_set1_epi8(1));
                }
                let count = _mm512_sub_epi8(end, whole_end);
                let count =
                    _mm512_subs_epu8(_mm512_and_si512(count, _mm512_set1_epi64(255)), _mm512_set1_epi64(1));
                let count = _mm512_min_epu64(count, _mm512_set1_epi64(DIVISORS.len() as i64 - 1));
                (fraction, _mm512_i64gather_pd::<8>(count, DIVISORS.as_ptr()))
            } else {
                // The look-up uses 3 bits. Without digits the divisor does not matter.
                let place = _mm512_sub_epi8(end, whole_end);
                let divisor = _mm512_permutexvar_pd(place, _mm512_loadu_pd(DIVISORS_BEFORE.as_ptr()));
                (_mm512_cvtepi64_pd(spelt(simd, digits, whole_end, end)), divisor)
            };
            let number = _mm512_add_pd(whole, _mm512_div_pd(fraction, divisor));
            store(simd, number, negative as u8, out);
            negative >>= 8;
            lanes = _mm512_add_epi8(lanes, _mm512_set1_epi8(8));
        }
    }
}

/// The divisor for `k` digits at index `(k + 1) % 8`, for 1 to 8 digits.
static DIVISORS_BEFORE: [f64; 8] = {
    let mut table = [1.0; 8];
    let mut count = 1;
    while count <= 8 {
        table[(count + 1) % 8] = DIVISORS[count];
        count += 1;
    }
    table
};

/// Converts eight entries from number `from` on. `places` has their starts, colons and ends in
/// turn, `digits` the values of all bytes as digits. Returns two indices and two values in turn;
/// missing entries become zeros.
///
/// Each number is moved to the end of 8 bytes, with zeros before it in place of other text. Then
/// neighbours are joined by multiply-and-add, three times: to numbers of two, of four and of eight
/// digits.
#[inline(always)]
fn convert_entries(simd: Avx512, digits: __m512i, places: __m512i, from: usize) -> __m512i {
    let starts = spread::<3>(simd, places, 3 * from);
    let (colons, ends) = (spread::<3>(simd, places, 3 * from + 1), spread::<3>(simd, places, 3 * from + 2));
    // SAFETY: the `Avx512` value proves CPU support.
    unsafe {
        // The 8 bytes before an end: -8 to -1.
        let before = _mm512_set1_epi64(0xfffe_fdfc_fbfa_f9f8_u64 as i64);
        let (in_index, in_value) = (_mm512_add_epi8(colons, before), _mm512_add_epi8(ends, before));
        let is_index = _mm512_cmpge_epi8_mask(in_index, starts);
        let is_value = _mm512_cmpgt_epi8_mask(in_value, colons);
        let index_digits = _mm512_maskz_permutexvar_epi8(is_index, in_index, digits);
        let value_digits = _mm512_maskz_permutexvar_epi8(is_value, in_value, digits);
        let both = _mm512_packus_epi32(fours(simd, index_digits), fours(simd, value_digits));
        _mm512_madd_epi16(both, _mm512_set1_epi32(0x0001_2710))
    }
}

/// Returns the places of the indices of these entries (below 8) in the result of
/// [`convert_entries`], then the places of their values.
#[inline(always)]
fn in_turn(_: Avx512, entries: &[u32; LANES]) -> __m512i {
    // SAFETY: the `Avx512` value proves CPU support; the 32 bytes are those of `entries`.
    unsafe {
        let entries = _mm256_loadu_si256(entries.as_ptr().cast());
        // Two indices, two values: 0 1 4 5 8 9 12 13.
        let indices = _mm256_add_epi32(entries, _mm256_and_si256(entries, _mm256_set1_epi32(6)));
        let values = _mm256_add_epi32(indices, _mm256_set1_epi32(2));
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(indices), values)
    }
}

/// Stores indices and values, which are at the places `order` of the result of [`convert_entries`].
/// Returns a bit for each index that is not below its limit.
#[inline(always)]
fn store_entries<T: Value>(
    simd: Avx512,
    numbers: __m512i,
    order: __m512i,
    limits: __m256i,
    indices: &mut [i32; LANES],
    values: &mut [T; LANES],
) -> u32 {
    // SAFETY: the `Avx512` value proves CPU support; 32 bytes are written to `indices`, which has
    // 32.
    unsafe {
        let both = _mm512_permutexvar_epi32(order, numbers);
        let found = _mm512_castsi512_si256(both);
        _mm256_storeu_si256(indices.as_mut_ptr().cast(), found);
        store_eight_integers(simd, _mm512_extracti64x4_epi64::<1>(both), values);
        u32::from(_mm256_cmpge_epu32_mask(found, limits))
    }
}

/// Loads the 64 bytes that begin `BACK` bytes before the block.
#[inline(always)]
fn load<const BACK: usize>(_: Avx512, text: Window<'_>) -> __m512i {
    // SAFETY: the `Avx512` value proves CPU support; the 64 bytes are those of the array.
    unsafe { _mm512_loadu_si512(text.back::<BACK>().as_ptr().cast()) }
}

/// Returns the value of each byte, if it is a digit; 10 or more for other bytes.
#[inline(always)]
fn digits(_: Avx512, text: __m512i) -> __m512i {
    // SAFETY: the `Avx512` value proves CPU support.
    unsafe { _mm512_sub_epi8(text, _mm512_set1_epi8(0x30)) }
}

/// Returns a mask of the digits, and the value of each byte, 0 if it is not a digit.
#[inline(always)]
fn digits_or_zeros(simd: Avx512, text: __m512i) -> (u64, __m512i) {
    let digits = digits(simd, text);
    // SAFETY: the `Avx512` value proves CPU support.
    unsafe {
        let digit = _mm512_cmplt_epu8_mask(digits, _mm512_set1_epi8(10));
        (digit, _mm512_maskz_mov_epi8(digit, digits))
    }
}

/// Returns a mask of the bytes that are `byte`.
#[inline(always)]
fn is_byte(_: Avx512, text: __m512i, byte: u8) -> u64 {
    // SAFETY: the `Avx512` value proves CPU support.
    unsafe { _mm512_cmpeq_epi8_mask(text, _mm512_set1_epi8(byte as i8)) }
}

/// Returns the places of the bits, one per byte; 0 after the last one.
#[inline(always)]
fn places(_: Avx512, bits: u64) -> __m512i {
    // SAFETY: the `Avx512` value proves CPU support; `bytes!` reads the 64 bytes of its own table.
    unsafe { _mm512_maskz_compress_epi8(bits, bytes!(|i| i)) }
}

/// Returns eight of the bytes, every `TURNS`th from number `from` on, each in all bytes of a lane.
#[inline(always)]
fn spread<const TURNS: usize>(_: Avx512, bytes: __m512i, from: usize) -> __m512i {
    const TABLE: [[u8; 64]; 5] = {
        let mut table = [[0; 64]; 5];
        let mut at = 0;
        while at < table.len() * 64 {
            table[at / 64][at % 64] = (at % 64 / LANES * (at / 64)) as u8;
            at += 1;
        }
        table
    };
    // SAFETY: the `Avx512` value proves CPU support; each row of the table has 64 bytes.
    unsafe {
        let lanes = _mm512_loadu_si512(TABLE[TURNS].as_ptr().cast());
        _mm512_permutexvar_epi8(_mm512_add_epi8(lanes, _mm512_set1_epi8(from as i8)), bytes)
    }
}

/// Returns, for each lane, the number spelt by the digits after place `before` and before place
/// `end`, at most the last 8 of them.
#[inline(always)]
fn spelt(simd: Avx512, digits: __m512i, before: __m512i, end: __m512i) -> __m512i {
    // SAFETY: the `Avx512` value proves CPU support; `bytes!` reads the 64 bytes of its own table.
    unsafe {
        let from = _mm512_add_epi8(end, bytes!(|i| (i % 8).wrapping_sub(8)));
        let is_part = _mm512_cmpgt_epi8_mask(from, before);
        let fours = fours(simd, _mm512_maskz_permutexvar_epi8(is_part, from, digits));
        // The first four digits, times 10000, are added to the last four.
        _mm512_dpwssd_epi32(_mm512_srli_epi64::<32>(fours), fours, _mm512_set1_epi64(10_000))
    }
}

/// Joins the eight digits of each lane into two numbers of four digits.
#[inline(always)]
fn fours(_: Avx512, digits: __m512i) -> __m512i {
    // SAFETY: the `Avx512` value proves CPU support.
    unsafe {
        let twos = _mm512_maddubs_epi16(digits, _mm512_set1_epi16(0x010a));
        _mm512_madd_epi16(twos, _mm512_set1_epi32(0x0001_0064))
    }
}

/// Stores eight doubles as values, negated (zeros too) where `negative` has a bit.
#[inline(always)]
fn store<T: Value>(_: Avx512, numbers: __m512d, negative: u8, out: &mut [T; LANES]) {
    const { assert!(size_of::<T>() == 4 || size_of::<T>() == 8) };
    // SAFETY: the `Avx512` value proves CPU support. Eight values of 4 or 8 bytes are written, as
    // many as `out` has, and any bit pattern is a valid `Value`, which is `Pod`.
    unsafe {
        let numbers = _mm512_mask_xor_pd(numbers, negative, numbers, _mm512_set1_pd(-0.0));
        if size_of::<T>() == size_of::<f32>() {
            _mm256_storeu_ps(out.as_mut_ptr().cast(), _mm512_cvtpd_ps(numbers));
        } else {
            _mm512_storeu_pd(out.as_mut_ptr().cast(), numbers);
        }
    }
}

/// Stores eight integers as values.
#[inline(always)]
fn store_eight_integers<T: Value>(_: Avx512, numbers: __m256i, out: &mut [T; LANES]) {
    const { assert!(size_of::<T>() == 4 || size_of::<T>() == 8) };
    // SAFETY: the `Avx512` value proves CPU support. Eight values of 4 or 8 bytes are written, as
    // many as `out` has, and any bit pattern is a valid `Value`, which is `Pod`.
    unsafe {
        if size_of::<T>() == size_of::<f32>() {
            _mm256_storeu_ps(out.as_mut_ptr().cast(), _mm256_cvtepi32_ps(numbers));
        } else {
            _mm512_storeu_pd(out.as_mut_ptr().cast(), _mm512_cvtepi32_pd(numbers));
        }
    }
}

/// Stores sixteen integers as values, negated (zeros too) where `negative` has a bit.
#[inline(always)]
fn store_integers<T: Value>(simd: Avx512, numbers: __m512i, negative: u16, out: &mut [T; 2 * LANES]) {
    const { assert!(size_of::<T>() == 4 || size_of::<T>() == 8) };
    // SAFETY: the `Avx512` value proves CPU support. Sixteen values of 4 bytes are written, as many
    // as `out` has, and any bit pattern is a valid `Value`, which is `Pod`.
    unsafe {
        if size_of::<T>() == size_of::<f32>() {
            let numbers = _mm512_cvtepi32_ps(numbers);
            let numbers = _mm512_mask_xor_ps(numbers, negative, numbers, _mm512_set1_ps(-0.0));
            _mm512_storeu_ps(out.as_mut_ptr().cast(), numbers);
        } else {
            let [low, high] = out.as_chunks_mut::<LANES>().0 else { return };
            for (numbers, negative, out) in [
                (_mm512_castsi512_si256(numbers), negative as u8, low),
                (_mm512_extracti64x4_epi64::<1>(numbers), (negative >> 8) as u8, high),
            ] {
                store(simd, _mm512_cvtepi32_pd(numbers), negative, out);
            }
        }
    }
}
