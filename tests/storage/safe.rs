//! Unpacked files in the cache folder always match their compressed files, whatever else happens,
//! and sizes claimed by files are not trusted.

use super::{cache, deliver, path_in, text};
use cntk_reader::files::{FileSystem, RemoteFile, mount};
use cntk_reader::{Error, LogLevel, Reader, set_log_sink};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Two gzip members whose length only depends on the length of the text, so that another text
/// yields a file of the same size.
fn two_members(text: &str) -> Vec<u8> {
    let line = text[..text.len() / 2].rfind('\n').expect("lines") + 1;
    let mut bytes = Vec::new();
    for part in [&text[..line], &text[line..]] {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
        encoder.write_all(part.as_bytes()).expect("memory");
        bytes.extend(encoder.finish().expect("memory"));
    }
    bytes
}

/// Returns a text of some megabytes, and another one of the same size.
fn texts() -> (String, String) {
    let old = text(60_000);
    let new = old.replace("5 -1 |y", "7 -1 |y");
    assert_eq!(old.len(), new.len());
    assert_ne!(old, new);
    (old, new)
}

/// Returns files of the cache folder whose names begin with `stem`.
fn cached(stem: &str) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(cache()).expect("the cache folder").map(|entry| entry.expect("an entry").path());
    let mut found: Vec<_> = entries
        .filter(|path| path.file_name().expect("a name").to_string_lossy().starts_with(stem))
        .collect();
    found.sort();
    found
}

/// Checks that unpacked files, which the explanation of an error may have created, are complete.
fn check_cached(stem: &str, text: &str) {
    for path in cached(stem).iter().filter(|path| path.extension().is_none_or(|end| end != "sum")) {
        assert!(fs::read_to_string(path).expect("a text") == text, "{}", path.display());
    }
}

/// A file that is replaced by another one after some reads.
#[derive(Clone)]
struct Torn {
    versions: [Arc<Vec<u8>>; 2],
    reads: Arc<AtomicUsize>,
    change: usize,
    has_identity: bool,
}

impl Torn {
    fn version(&self) -> usize {
        usize::from(self.reads.load(Ordering::SeqCst) > self.change)
    }
}

impl FileSystem for Torn {
    fn open(&self, _: &str) -> io::Result<Box<dyn RemoteFile>> {
        Ok(Box::new(self.clone()))
    }
}

impl RemoteFile for Torn {
    fn size(&self) -> io::Result<u64> {
        Ok(self.versions[0].len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let bytes = self.versions[self.version()].get(offset as usize..).unwrap_or_default();
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn identity(&self) -> io::Result<Vec<u8>> {
        Ok(if self.has_identity { vec![self.version() as u8] } else { Vec::new() })
    }
}

#[test]
fn remote_file_changed_while_unpacking_leaves_nothing() {
    cache();
    let (old, new) = texts();
    let folder = tempfile::tempdir().expect("a folder");
    let plain = path_in(&folder, "new.ctf");
    fs::write(&plain, &new).expect("a file");
    let wanted = deliver(&plain, false).expect("plain data");
    for has_identity in [true, false] {
        for change in [1, 9, 10, 11, 12, 13] {
            let scheme = format!("torn{change}{has_identity}");
            let torn = Torn {
                versions: [Arc::new(two_members(&old)), Arc::new(two_members(&new))],
                reads: Arc::default(),
                change,
                has_identity,
            };
            mount(&scheme, Arc::new(torn.clone())).expect("a scheme");
            let path = format!("{scheme}://{scheme}.ctf.gz");
            // The change may come after everything was read, in which case the old data are right.
            // They never mix.
            match deliver(&path, false) {
                Ok(data) => assert!(torn.version() == 0 || data == wanted, "{scheme}: a mix was delivered"),
                Err(error) => {
                    // Without an identity, a change within a member looks like damage.
                    let is_known = error.message().contains("was changed while it was");
                    let is_damaged = !has_identity && error.message().contains("gzip data are damaged");
                    assert!(is_known || is_damaged, "{scheme}: {error}");
                    check_cached(&scheme, &new);
                    assert!(deliver(&path, false).expect("all of the new data") == wanted, "{scheme}");
                }
            }
        }
    }
}

#[test]
fn local_file_changed_while_unpacking_leaves_nothing() {
    cache();
    let (old, new) = texts();
    let folder = tempfile::tempdir().expect("a folder");
    let path = path_in(&folder, "rewritten.ctf.gz");
    fs::write(&path, two_members(&old)).expect("a file");
    // The line of the log comes before the first byte is unpacked.
    let (at, bytes, count) = (path.clone(), two_members(&new), AtomicUsize::new(0));
    set_log_sink(Some(Arc::new(move |_: LogLevel, line: &str| {
        if line.contains("Unpacking") && line.contains(&at) && count.fetch_add(1, Ordering::SeqCst) == 0 {
            let file = File::options().write(true).open(&at).expect("a file");
            let before = file.metadata().and_then(|metadata| metadata.modified()).expect("a time");
            (&file).write_all(&bytes).expect("writing");
            // Restore size and time.
            file.set_modified(before).expect("a time");
        }
    })));
    let error = deliver(&path, false).expect_err("it has changed");
    set_log_sink(None);
    assert!(error.message().contains("was changed while it was unpacked"), "{error}");
    assert!(error.detail().contains("wait until it is complete"), "{error}");
    check_cached("rewritten", &new);
    let plain = path_in(&folder, "new.ctf");
    fs::write(&plain, &new).expect("a file");
    assert!(deliver(&path, false).expect("new data") == deliver(&plain, false).expect("plain data"));

    // Another file of the same size and time is not mistaken for it.
    let file = File::options().write(true).open(&path).expect("a file");
    let before = file.metadata().and_then(|metadata| metadata.modified()).expect("a time");
    (&file).write_all(&two_members(&old)).expect("writing");
    file.set_modified(before).expect("a time");
    fs::write(&plain, &old).expect("a file");
    assert!(deliver(&path, false).expect("old data") == deliver(&plain, false).expect("plain data"));
}

#[test]
fn planted_links_and_checksums_are_not_trusted() {
    cache();
    let (old, new) = texts();
    let folder = tempfile::tempdir().expect("a folder");
    let (path, plain) = (path_in(&folder, "planted.ctf.gz"), path_in(&folder, "plain.ctf"));
    fs::write(&path, two_members(&old)).expect("a file");
    fs::write(&plain, &old).expect("a file");
    let wanted = deliver(&plain, false).expect("plain data");
    assert!(deliver(&path, false).expect("data") == wanted);
    let files = cached("planted");
    for file in &files {
        let mode = fs::metadata(file).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
    let [data, sum] = files.as_slice() else { panic!("{files:?}") };
    // Replace all files by links.
    let victim = folder.path().join("victim");
    for name in [
        data.clone(),
        sum.clone(),
        data.with_extension("part"),
        PathBuf::from(format!("{}.part", data.display())),
    ] {
        fs::write(&victim, &new).expect("a file");
        let _ = fs::remove_file(&name);
        symlink(&victim, &name).expect("a link");
        assert!(deliver(&path, false).expect("data") == wanted, "{}", name.display());
        assert_eq!(fs::read_to_string(&victim).expect("a file"), new, "{}", name.display());
        let _ = fs::remove_file(&name);
    }
    // Data that everyone may write to.
    assert!(deliver(&path, false).expect("data") == wanted);
    fs::write(data, &new).expect("a file");
    fs::set_permissions(data, fs::Permissions::from_mode(0o666)).expect("permissions");
    assert!(deliver(&path, false).expect("data") == wanted);
}

/// A file that claims a size, but has only a few bytes.
struct Claim(Arc<Vec<u8>>, u64);

impl FileSystem for Claim {
    fn open(&self, path: &str) -> io::Result<Box<dyn RemoteFile>> {
        // A valid script that names an invalid file.
        match path.contains("plain") {
            true => Ok(Box::new(Claim(Arc::clone(&self.0), self.0.len() as u64))),
            false => Ok(Box::new(Claim(Arc::clone(&self.0), self.1))),
        }
    }
}

impl RemoteFile for Claim {
    fn size(&self) -> io::Result<u64> {
        Ok(self.1)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = usize::try_from(offset).ok().and_then(|offset| self.0.get(offset..)).unwrap_or_default();
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn identity(&self) -> io::Result<Vec<u8>> {
        Ok(Vec::new())
    }
}

fn open(section: &str, randomize: bool) -> Result<(), Error> {
    let text = format!("traceLevel=0\nrandomize={randomize}\ndeserializers=({section})\n");
    let mut reader = Reader::builder().config_text(&text)?.open()?;
    let epoch = cntk_reader::Epoch::sweeps(1).minibatch_size(10);
    reader.epoch(epoch)?.try_for_each(|minibatch| minibatch.map(drop))
}

/// Returns all formats, with the first bytes of a file.
fn formats() -> Vec<(&'static str, String, Vec<u8>)> {
    let image = "input=[f=[transforms=([type=Transpose])];l=[labelDim=2]]";
    let htk = "[type=HTKFeatureDeserializer;module=HTKDeserializers;input=[x=[scpFile=\"~.scp\";dim=1]]]";
    let ctf = "[type=CNTKTextFormatDeserializer;module=CNTKTextFormatReader;file=\"~.ctf\";input=[x=[dim=1;format=dense]]]";
    let local = |name: &str, content: &str| {
        let path = cache().join(name);
        fs::write(&path, content).expect("a file");
        path.display().to_string()
    };
    let script = local("claims.scp", "u0.mfc=SCHEME://a.mfc[0,1]\n");
    let kaldi = local("claims-kaldi.scp", "u0 SCHEME://a.ark:4\n");
    let map = local("claims.map", "SCHEME://a.png\t1\nSCHEME://a.zip@/a.png\t0\n");
    let toc = local("claims.toc", "u0=SCHEME://a.lat[0]\n");
    let tocs = local("claims.tocs", &format!("{toc}\n"));
    let features = local(
        "claims-real.scp",
        &format!("u0.mfc={}/tests/htk/data/arch.mfc[0,1]\n", env!("CARGO_MANIFEST_DIR")),
    );
    let with_features = |section: &str| {
        format!(
            "[type=HTKFeatureDeserializer;module=HTKDeserializers;input=[x=[scpFile=\"{features}\";dim=3]]]:{section}"
        )
    };
    let mut zstd = vec![0x28, 0xb5, 0x2f, 0xfd, 0xe0];
    zstd.extend(u64::MAX.to_le_bytes());
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xff\xff\xff\xff\xff\xff\xff".to_vec();
    png.extend([8, 2, 0, 0, 0, 0, 0, 0, 0]);
    vec![
        ("CTF", ctf.to_owned(), b"|x 1\n|x 2\n".to_vec()),
        ("CTF, ids", ctf.to_owned(), b"0 |x 1\n1 |x 2\n".to_vec()),
        ("gzip", ctf.replace(".ctf", ".ctf.gz"), two_members("|x 1\n|x 2\n")),
        ("zstd", ctf.replace(".ctf", ".ctf.zst"), zstd),
        (
            "CBF",
            "[type=CNTKBinaryFormatDeserializer;module=CNTKBinaryReader;file=\"~.cbf\"]".to_owned(),
            [b"nib_ktnc\x01\0\0\0".as_slice(), &[0xff; 300]].concat(),
        ),
        ("script", htk.to_owned(), b"u0.mfc=~.mfc[0,1]\n".to_vec()),
        (
            "features",
            htk.replace("~.scp", &script),
            [&[0x7f, 0xff, 0xff, 0xff, 0, 1, 0x86, 0xa0, 0, 4, 0, 9][..], &[0; 64]].concat(),
        ),
        (
            "labels",
            with_features(
                "[type=HTKMLFDeserializer;module=HTKDeserializers;input=[y=[mlfFile=\"~.mlf\";dim=4]]]",
            ),
            b"#!MLF!#\n\"u0\"\n0 200000 a 1\n.\n".to_vec(),
        ),
        (
            "states",
            with_features(
                "[type=HTKMLFDeserializer;module=HTKDeserializers;input=[y=[mlfFile=\"~plain.mlf\";dim=4;labelMappingFile=\"~states\"]]]",
            ),
            b"a\n".to_vec(),
        ),
        (
            "lattices",
            with_features(&format!(
                "[type=LatticeDeserializer;module=HTKDeserializers;input=[z=[latticeIndexFile=\"{tocs}\"]]]"
            )),
            vec![7; 64],
        ),
        (
            "Kaldi archive",
            "[type=KaldiDeserializer;input=[x=[arkFile=\"~.ark\";dim=1]]]".to_owned(),
            b"u0 \0BFM \x04\xff\xff\xff\x7f\x04\xff\xff\xff\x7f\0\0\0\0".to_vec(),
        ),
        (
            "Kaldi text",
            "[type=KaldiDeserializer;input=[x=[arkFile=\"~.ark\";dim=1]]]".to_owned(),
            b"u0 [ 1 2\n".to_vec(),
        ),
        (
            "Kaldi script",
            "[type=KaldiDeserializer;input=[x=[scpFile=\"~.scp\";dim=1]]]".to_owned(),
            b"u0 a.ark:3\n".to_vec(),
        ),
        (
            "Kaldi object",
            format!("[type=KaldiDeserializer;input=[x=[scpFile=\"{kaldi}\";dim=1]]]"),
            b"u0 \0\0BCM \0\0\0\0\0\0\0\0\xff\xff\xff\x7f\xff\xff\xff\x7f".to_vec(),
        ),
        (
            "map",
            format!("[type=ImageDeserializer;module=ImageReader;file=\"~.map\";{image}]"),
            b"a.png\t1\n".to_vec(),
        ),
        ("image", format!("[type=ImageDeserializer;module=ImageReader;file=\"{map}\";{image}]"), png.clone()),
        (
            "Base64",
            format!("[type=Base64ImageDeserializer;module=ImageReader;file=\"~.b64\";{image}]"),
            b"1\tAAAA\n".to_vec(),
        ),
    ]
}

#[test]
fn sizes_claimed_by_remote_files_are_not_trusted() {
    cache();
    for (number, size) in
        [u64::MAX, i64::MAX as u64, 1 << 55, (1 << 47) + 1, 1 << 47, 1 << 40].into_iter().enumerate()
    {
        for (place, (what, section, head)) in formats().into_iter().enumerate() {
            let scheme = format!("claim{number}x{place}");
            mount(&scheme, Arc::new(Claim(Arc::new(head), size))).expect("a scheme");
            // Texts that name further files are written for each scheme.
            for name in ["claims.scp", "claims-kaldi.scp", "claims.map", "claims.toc"] {
                let path = cache().join(name);
                let text = fs::read_to_string(&path).expect("a file");
                fs::write(&path, text.replace("SCHEME", &scheme)).expect("a file");
            }
            let section = section.replace('~', &format!("{scheme}://"));
            for randomize in [true, false] {
                let error = open(&section, randomize).expect_err(what);
                assert_ne!(error.kind(), cntk_reader::ErrorKind::Internal, "{what}: {error}");
                assert!(
                    size <= 1 << 47 || error.to_string().contains(&size.to_string()) || what == "image",
                    "{what}: {error}"
                );
            }
        }
    }
}

#[test]
fn sizes_of_sparse_files_are_not_trusted() {
    // Only some file systems allow files of this size.
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else { return };
    let path = path_in(&folder, "a.ctf");
    let file = File::create(&path).expect("a file");
    if file.set_len(1 << 55).is_err() {
        return;
    }
    (&file).write_all(b"|x 1 2 3 |y 1:1\n").expect("writing");
    for randomize in [true, false] {
        let error = deliver(&path, randomize).expect_err("too large");
        assert!(error.to_string().contains("36028797018963968"), "{error}");
    }
}
