//! Converts arrays to sequences.

use super::archive::{self, Member};
use super::{DIM, INDICES, KEYS, OFFSETS, SEQUENCES, VALUES};
use crate::convert::data::{Batch, Column};
use cntk_reader_arrays::header::{Described, LONGEST};
use cntk_reader_arrays::values::{READABLE, ValueType};
use cntk_reader_core::file::DataFile;
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::ValueForm;
use cntk_reader_core::stream::{ElementType, StreamInfo};
use cntk_reader_core::{Error, Result};

/// Options for reading arrays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NumpyOptions {
    /// Name of the stream of a file with one array; `None`: the name of the file.
    pub stream: Option<String>,
    /// Arrays of class numbers, each with the number of classes: they become sparse streams with a
    /// 1 at the class.
    pub one_hot: Vec<(String, usize)>,
    /// Type of the values of all streams, `float32` or `float64`. If `None`, each stream has the
    /// type of its array, or the smallest type that holds the array's integers.
    pub element: Option<ElementType>,
    /// Whether the file is an archive; `None`: decided by its first bytes.
    pub is_archive: Option<bool>,
}

/// Reads arrays as sequences.
pub struct NumpyData {
    file: DataFile,
    streams: Vec<StreamInfo>,
    arrays: Vec<Arrays>,
    keys: Option<Array>,
    sequences: u64,
    /// Number of sequences read so far.
    at: u64,
    /// Average size of a sequence in bytes.
    average: u64,
}

/// The arrays of a stream.
struct Arrays {
    values: Array,
    kind: SampleLayout,
    /// Starts of the sequences among the samples; `None`: each sample is a sequence.
    sequences: Option<Array>,
}

enum SampleLayout {
    /// The number of values of a sample.
    Dense(u64),
    /// Indices, offsets, and the dimension.
    Sparse(Array, Array, u64),
    /// The number of classes.
    OneHot(u64),
}

/// An array in the file.
#[derive(Debug, Clone)]
struct Array {
    name: String,
    value: ArrayType,
    shape: Vec<u64>,
    /// Offset of its values in the file.
    offset: u64,
}

/// The type of an array's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArrayType {
    Numbers(ValueType),
    /// Strings of this many characters, 4 bytes each.
    Texts(usize),
}

impl ArrayType {
    fn of(described: &Described) -> Option<ArrayType> {
        if let Some(value) = ValueType::of(&described.element) {
            return Some(ArrayType::Numbers(value));
        }
        let is_text = described.element.trim_start_matches(['<', '=']).starts_with('U');
        let size = usize::try_from(described.element_size().filter(|_| is_text)?).ok()?;
        Some(ArrayType::Texts(size / 4))
    }

    fn size(self) -> usize {
        match self {
            ArrayType::Numbers(value) => value.size(),
            ArrayType::Texts(characters) => 4 * characters,
        }
    }
}

impl Array {
    fn open(file: &DataFile, member: &Member) -> Result<Array> {
        let wrong = |detail: String| {
            Error::data(format!("The array '{}' cannot be read.", member.name))
                .with_detail(detail)
                .in_file(file.path())
        };
        let mut start = room::zeroed(LONGEST.min(member.size as usize), room::FILE)?;
        let count = file.read_at(member.offset, &mut start)?;
        let described = Described::read(&start[..count]).map_err(|error| wrong(error.to_string()))?;
        let value = ArrayType::of(&described).ok_or_else(|| {
            wrong(format!("Its values have the type '{}'. Expected texts, {READABLE}.", described.element))
        })?;
        if !described.is_c_order && described.shape.len() > 1 {
            return Err(wrong("It is in Fortran's order. Write it with numpy.ascontiguousarray.".to_owned()));
        }
        let bytes = described.bytes(value.size() as u64);
        let end = bytes.and_then(|bytes| bytes.checked_add(described.size as u64));
        let inside = end.filter(|&end| end <= member.size).and_then(|end| member.offset.checked_add(end));
        if inside.is_none_or(|end| file.size().is_ok_and(|size| end > size)) {
            return Err(wrong(format!("It ends before the values of its shape {:?}.", described.shape)));
        }
        Ok(Array {
            name: member.name.clone(),
            value,
            shape: described.shape,
            offset: member.offset + described.size as u64,
        })
    }

    /// Returns the length of the first dimension.
    fn rows(&self) -> u64 {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Returns the number of values of a row.
    fn row(&self) -> u64 {
        self.shape.iter().skip(1).product()
    }

    /// Reads the bytes of rows.
    fn read(&self, file: &DataFile, first: u64, count: u64) -> Result<Vec<u8>> {
        let row = self.row() * self.value.size() as u64;
        let mut bytes = room::zeroed((count * row) as usize, room::CONVERSION)?;
        file.read_exact_at(self.offset + first * row, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads integers.
    fn integers(&self, file: &DataFile, first: u64, count: u64) -> Result<Vec<i64>> {
        let none = || self.wrong(file, "It has no integers.");
        let ArrayType::Numbers(value) = self.value else { return Err(none()) };
        let value = if value == ValueType::Bool { ValueType::Unsigned(1) } else { value };
        let mut found = room::with_capacity(count as usize, room::CONVERSION)?;
        for bytes in self.read(file, first, count)?.chunks_exact(value.size()) {
            let number = value.integer(bytes).ok_or_else(none)?;
            let too_large = |_| self.wrong(file, &format!("The number {number} is too large."));
            found.push(i64::try_from(number).map_err(too_large)?);
        }
        Ok(found)
    }

    /// Reads values as the type of a stream, in native order.
    fn values(
        &self,
        file: &DataFile,
        first: u64,
        count: u64,
        element: ElementType,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let ArrayType::Numbers(value) = self.value else {
            return Err(self.wrong(file, "It has texts, not numbers."));
        };
        let bytes = self.read(file, first, count)?;
        if value.form(element) == Some(ValueForm::Whole) {
            return room::extend(out, &bytes, room::CONVERSION);
        }
        let append = |values: &[u8]| room::extend(out, values, room::CONVERSION);
        let Some(at) = value.convert(&bytes, element, append)? else { return Ok(()) };
        let number = value.integer(&bytes[at * value.size()..][..value.size()]);
        let number = number.map_or_else(|| "a number".to_owned(), |number| format!("the number {number}"));
        let row = first + at as u64 / self.row().max(1);
        let name = element.name();
        Err(self.wrong(file, &format!("It has {number} in row {row}, and {name} cannot hold it exactly.")))
    }

    fn wrong(&self, file: &DataFile, detail: &str) -> Error {
        Error::data(format!("The array '{}' is wrong.", self.name)).with_detail(detail).in_file(file.path())
    }

    /// Reads the start of part `first` and the ends of `count` parts. Checks that they ascend and
    /// do not exceed `most`.
    fn bounds(&self, file: &DataFile, first: u64, count: u64, most: u64) -> Result<Vec<u64>> {
        let numbers = self.integers(file, first, count + 1)?;
        let mut bounds = room::with_capacity(numbers.len(), room::CONVERSION)?;
        bounds.extend(numbers.iter().map_while(|&number| u64::try_from(number).ok()));
        let ascend =
            bounds.windows(2).all(|pair| pair[0] <= pair[1] && pair[1] - pair[0] <= u64::from(u32::MAX));
        if bounds.len() == numbers.len() && ascend && bounds.last().is_none_or(|&last| last <= most) {
            return Ok(bounds);
        }
        Err(self.wrong(file, &format!("It must have numbers that ascend from 0 to {most}.")))
    }
}

impl NumpyData {
    pub fn open(path: &str, options: &NumpyOptions) -> Result<NumpyData> {
        if let Some(element) = options.element.filter(|element| !element.is_real()) {
            let error = Error::argument(format!("Arrays cannot be read as {}.", element.name()));
            return Err(error.with_detail("Choose float32 or float64, or leave the type out."));
        }
        let file = DataFile::open(path)?;
        let mut start = [0; 2];
        let count = file.read_at(0, &mut start)?;
        let is_archive = options.is_archive.unwrap_or(&start[..count] == b"PK");
        let members = if is_archive {
            archive::members(&file)?
        } else {
            let stem = std::path::Path::new(path).file_stem().map(|stem| stem.to_string_lossy().into_owned());
            let name = options.stream.clone().or(stem).unwrap_or_default();
            vec![Member { name, offset: 0, size: file.size()? }]
        };
        let found = members.iter().map(|member| Array::open(&file, member)).collect::<Result<Vec<_>>>()?;
        Self::arrange(file, found, options)
    }

    /// Groups the arrays into streams.
    fn arrange(file: DataFile, mut found: Vec<Array>, options: &NumpyOptions) -> Result<NumpyData> {
        let keys = take(&mut found, KEYS);
        let mut arrays = Vec::new();
        let names: Vec<String> = found.iter().map(|array| array.name.clone()).collect();
        let is_end = |name: &str| [INDICES, OFFSETS, SEQUENCES, DIM].iter().any(|end| name.ends_with(end));
        for name in names.iter().filter(|name| !is_end(name)) {
            let base = name.strip_suffix(VALUES).unwrap_or(name);
            let mut take = |end: &str| take(&mut found, &format!("{base}{end}"));
            let sequences = take(SEQUENCES);
            let (kind, values) = match (take(INDICES), take(OFFSETS), take(DIM)) {
                (Some(indices), Some(offsets), Some(dim)) => {
                    let dim =
                        dim.integers(&file, 0, 1)?.first().copied().and_then(|dim| u64::try_from(dim).ok());
                    let dim = dim.filter(|dim| (1..=i32::MAX as u64).contains(dim));
                    let dim =
                        dim.ok_or_else(|| offsets.wrong(&file, "The dimension beside it is invalid."))?;
                    (SampleLayout::Sparse(indices, offsets, dim), take(VALUES))
                }
                _ => {
                    let values = take(name.strip_prefix(base).unwrap_or_default());
                    let classes =
                        options.one_hot.iter().find(|(one, _)| one == name).map(|&(_, classes)| classes);
                    let row = values.as_ref().map_or(0, Array::row);
                    (
                        classes
                            .map_or(SampleLayout::Dense(row), |classes| SampleLayout::OneHot(classes as u64)),
                        values,
                    )
                }
            };
            let Some(values) = values else { continue };
            arrays.push((base.to_owned(), Arrays { values, kind, sequences }));
        }
        if let Some(array) = found.first() {
            return Err(array.wrong(
                &file,
                "The end of its name says that it belongs to another array, which is missing.",
            ));
        }
        let unknown = |(one, _): &&(String, usize)| !arrays.iter().any(|(name, _)| name == one);
        if let Some((name, _)) = options.one_hot.iter().find(unknown) {
            let message = format!("There is no array '{name}', which should have class numbers.");
            return Err(Error::argument(message).in_file(file.path()));
        }
        let Some((_, first)) = arrays.first() else {
            return Err(Error::data("The archive has no arrays.").in_file(file.path()));
        };
        let sequences = first.count();
        let mut streams = Vec::with_capacity(arrays.len());
        for (name, arrays) in &arrays {
            arrays.check(&file, sequences)?;
            let element = options.element.unwrap_or_else(|| arrays.element());
            streams.push(arrays.describe(name).element(element));
        }
        if let Some(keys) = keys.as_ref().filter(|keys| keys.rows() != sequences || keys.row() != 1) {
            return Err(keys.wrong(&file, &format!("It must have {sequences} keys, one for each sequence.")));
        }
        let bytes: u64 = arrays.iter().map(|(_, arrays)| arrays.bytes()).fold(0, u64::saturating_add);
        Ok(NumpyData {
            streams,
            arrays: arrays.into_iter().map(|(_, arrays)| arrays).collect(),
            keys,
            sequences,
            at: 0,
            average: (bytes / sequences.max(1)).max(1),
            file,
        })
    }

    pub fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    pub fn sequences(&self) -> u64 {
        self.sequences
    }

    /// Whether every sequence has one sample in each stream.
    pub fn are_single(&self) -> bool {
        self.arrays.iter().all(|arrays| arrays.sequences.is_none())
    }

    pub fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// Reads the next sequences of the streams `selected`: about `bytes` bytes, and at most `most`
    /// sequences. Returns false if these are the last.
    pub fn read(&mut self, bytes: usize, most: usize, selected: &[usize], batch: &mut Batch) -> Result<bool> {
        let wanted = (bytes as u64 / self.average).clamp(1, most as u64);
        let (first, count) = (self.at, wanted.min(self.sequences - self.at));
        for (&number, column) in selected.iter().zip(&mut batch.columns) {
            let (arrays, element) = (&self.arrays[number], self.streams[number].element);
            arrays.read(&self.file, element, first, count, column)?;
        }
        room::reserve(&mut batch.keys, count as usize, room::CONVERSION)?;
        match &self.keys {
            None => batch.keys.extend((first..first + count).map(|number| number.to_string())),
            Some(keys) => keys.texts(&self.file, first, count, &mut batch.keys)?,
        }
        self.at += count;
        Ok(self.at < self.sequences)
    }
}

/// Removes an array from a list, and returns it.
fn take(found: &mut Vec<Array>, name: &str) -> Option<Array> {
    let at = found.iter().position(|array| array.name == name)?;
    Some(found.remove(at))
}

impl Arrays {
    /// Returns the number of samples.
    fn samples(&self) -> u64 {
        match &self.kind {
            SampleLayout::Dense(_) | SampleLayout::OneHot(_) => self.values.rows(),
            SampleLayout::Sparse(_, offsets, _) => offsets.rows().saturating_sub(1),
        }
    }

    /// Returns the type of the stream's values.
    fn element(&self) -> ElementType {
        match (&self.kind, self.values.value) {
            (SampleLayout::Dense(_), ArrayType::Numbers(value)) => value.element(ElementType::Float),
            (SampleLayout::Sparse(..), ArrayType::Numbers(ValueType::Double)) => ElementType::Double,
            _ => ElementType::Float,
        }
    }

    /// Returns the number of sequences.
    fn count(&self) -> u64 {
        self.sequences.as_ref().map_or(self.samples(), |sequences| sequences.rows().saturating_sub(1))
    }

    /// Returns the size of all arrays in bytes.
    fn bytes(&self) -> u64 {
        let bytes = |array: &Array| array.rows() * array.row() * array.value.size() as u64;
        let own = bytes(&self.values) + self.sequences.as_ref().map_or(0, bytes);
        match &self.kind {
            SampleLayout::Dense(_) => own,
            SampleLayout::Sparse(indices, offsets, _) => own + bytes(indices) + bytes(offsets),
            SampleLayout::OneHot(_) => own + 16 * self.samples(),
        }
    }

    fn check(&self, file: &DataFile, sequences: u64) -> Result<()> {
        if self.values.shape.is_empty() {
            return Err(self.values.wrong(file, "It is a single number."));
        }
        if self.count() != sequences {
            let detail = format!("It has {} sequences, and the first array has {sequences}.", self.count());
            return Err(self.values.wrong(file, &detail));
        }
        let sparse = match &self.kind {
            SampleLayout::Sparse(indices, offsets, _) => [Some(indices), Some(offsets)],
            SampleLayout::Dense(_) | SampleLayout::OneHot(_) => [None, None],
        };
        let mut lists = sparse.into_iter().chain([self.sequences.as_ref()]).flatten();
        if let Some(array) = lists.find(|array| array.shape.len() != 1) {
            return Err(array.wrong(file, "It must have one dimension."));
        }
        match &self.kind {
            SampleLayout::Dense(0) => Err(self.values.wrong(file, "Its samples have no values.")),
            SampleLayout::Sparse(indices, ..) if indices.rows() != self.values.rows() => {
                Err(indices.wrong(file, "There must be one index for each value."))
            }
            SampleLayout::Sparse(..) | SampleLayout::OneHot(_) if self.values.shape.len() > 1 => {
                Err(self.values.wrong(file, "It must have one dimension."))
            }
            _ => Ok(()),
        }
    }

    fn describe(&self, name: &str) -> StreamInfo {
        match self.kind {
            SampleLayout::Dense(_) => {
                let shape: Vec<usize> =
                    self.values.shape[1..].iter().rev().map(|&dim| dim as usize).collect();
                StreamInfo::dense(name, if shape.is_empty() { &[1] } else { &shape })
            }
            SampleLayout::Sparse(_, _, dim) | SampleLayout::OneHot(dim) => {
                StreamInfo::sparse(name, &[dim as usize])
            }
        }
    }

    /// Reads sequences.
    fn read(
        &self,
        file: &DataFile,
        element: ElementType,
        first: u64,
        count: u64,
        column: &mut Column,
    ) -> Result<()> {
        let (mut sample, mut samples) = (first, count);
        match &self.sequences {
            None => room::resize(&mut column.lengths, count as usize, 1, room::CONVERSION)?,
            Some(array) => {
                let bounds = array.bounds(file, first, count, self.samples())?;
                room::reserve(&mut column.lengths, count as usize, room::CONVERSION)?;
                column.lengths.extend(bounds.windows(2).map(|pair| (pair[1] - pair[0]) as u32));
                (sample, samples) = (bounds[0], bounds[count as usize] - bounds[0]);
            }
        }
        match &self.kind {
            SampleLayout::Dense(_) => self.values.values(file, sample, samples, element, &mut column.values),
            SampleLayout::Sparse(indices, offsets, dim) => {
                let bounds = offsets.bounds(file, sample, samples, self.values.rows())?;
                room::reserve(&mut column.counts, samples as usize, room::CONVERSION)?;
                column.counts.extend(bounds.windows(2).map(|pair| (pair[1] - pair[0]) as u32));
                let (entry, entries) = (bounds[0], bounds[samples as usize] - bounds[0]);
                indices.indices(file, entry, entries, *dim, &mut column.indices)?;
                self.values.values(file, entry, entries, element, &mut column.values)
            }
            SampleLayout::OneHot(classes) => {
                self.values.indices(file, sample, samples, *classes, &mut column.indices)?;
                room::resize(&mut column.counts, samples as usize, 1, room::CONVERSION)?;
                let bytes = samples as usize * element.size();
                room::reserve(&mut column.values, bytes, room::CONVERSION)?;
                (0..samples).for_each(|_| match element {
                    ElementType::Double => column.values.extend(1f64.to_ne_bytes()),
                    _ => column.values.extend(1f32.to_ne_bytes()),
                });
                Ok(())
            }
        }
    }
}

impl Array {
    /// Reads indices of sparse samples, which must be below `dim`.
    fn indices(&self, file: &DataFile, first: u64, count: u64, dim: u64, out: &mut Vec<i32>) -> Result<()> {
        let indices = self.integers(file, first, count)?;
        room::reserve(out, indices.len(), room::CONVERSION)?;
        for (number, index) in (first..).zip(indices) {
            if !(0..dim as i64).contains(&index) {
                let detail = format!("Its number {number} is {index}, which must be from 0 to {}.", dim - 1);
                return Err(self.wrong(file, &detail));
            }
            out.push(index as i32);
        }
        Ok(())
    }

    /// Reads keys.
    fn texts(&self, file: &DataFile, first: u64, count: u64, out: &mut Vec<String>) -> Result<()> {
        let characters = match self.value {
            ArrayType::Texts(characters) => characters,
            ArrayType::Numbers(value) => {
                for bytes in self.read(file, first, count)?.chunks_exact(value.size()) {
                    let number = value.integer(bytes);
                    let number = number.ok_or_else(|| self.wrong(file, "Keys are integers or texts."))?;
                    out.push(number.to_string());
                }
                return Ok(());
            }
        };
        let bytes = self.read(file, first, count)?;
        for bytes in bytes.chunks_exact(4 * characters) {
            let codes = bytes.as_chunks().0.iter().map(|&code| u32::from_le_bytes(code));
            let text: Option<String> = codes.take_while(|&code| code != 0).map(char::from_u32).collect();
            out.push(text.ok_or_else(|| self.wrong(file, "It has strings with invalid characters."))?);
        }
        Ok(())
    }
}
