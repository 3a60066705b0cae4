//! Tests of formats that look alike.

use super::*;

fn of(bytes: &[u8]) -> FileFormat {
    FileFormat::of_bytes(bytes, bytes.len() as u64)
}

#[test]
fn text() {
    for (text, expected) in [
        ("", FileFormat::Empty),
        (" \n\r\n", FileFormat::Empty),
        ("\u{feff}", FileFormat::Empty),
        ("|x 1 2 |y 3:1\n", FileFormat::CtfLines),
        ("\u{feff}\n|x 1 2\n", FileFormat::CtfLines),
        ("|# a comment\n|x 1\n", FileFormat::CtfLines),
        ("100 |x 1\n100 |x 2\n", FileFormat::CtfIds),
        ("100|x 1", FileFormat::CtfIds),
        ("utt1 |x 1\nutt2\t|x 2\n", FileFormat::CtfTextIds),
        ("#!MLF!#\n\"a.lab\"\n0 1 s1\n.\n", FileFormat::Mlf),
        ("utt1  [\n  1 2\n  3 4 ]\n", FileFormat::KaldiText),
        ("utt1 feats.ark:5\nutt2 feats.ark:99\n", FileFormat::Script),
        ("a.mfc=/data/all.mfc[0,10]\nb.mfc=/data/all.mfc[11,20]\n", FileFormat::Script),
        ("# mine\nrandomize = true\nreader = [\n", FileFormat::Configuration),
        ("a/1.jpg\t0\nb@/2.PNG\t17\n", FileFormat::ImageMap),
        ("k1\ta/1.jpg\t0\nk2\t2.bmp\t17\n", FileFormat::ImageMap),
        ("a/1.jpg,0\nb/2.png,17\n", FileFormat::ImageMap),
        ("a/1.jpg 0\nb/2.png 17\n", FileFormat::ImageMap),
        ("a,b,label\n1,2,3\n4,5,6\n", FileFormat::Csv),
        ("1;2;3\n4;5;6\n", FileFormat::Csv),
        ("1\t2\n3\t4\n", FileFormat::Tsv),
        ("0.5 0.25 1e3\n1 2 3\n", FileFormat::Numbers),
        ("-1 1:0.5 7:1\n+1 2:0.25\n", FileFormat::LibSvm),
        ("3 qid:1 1:0.5 7:1 # |doc a\n1 qid:1 2:0.25\n", FileFormat::LibSvm),
        ("1 1.0 'tag|f 1:0.5 b\n-1 'two|f 2:1 |g c\n", FileFormat::VowpalWabbit),
        ("1 | 1:0.5 2:1\n-1 | 2:1\n", FileFormat::VowpalWabbit),
        ("-1 |f a:0.5 b\n+1 |f c\n", FileFormat::VowpalWabbit),
        ("{\"a\": 1}\n{\"a\": 2}\n", FileFormat::Json),
        ("Dear reader,\nthis is a text.\n", FileFormat::Text),
        ("0 x 1 2 y 0:1\n1 x 1 2 y 2:1\n", FileFormat::Text),
        ("0 | 1 2 | 0:1\n1 | 1 2 | 1:1\n", FileFormat::Text),
    ] {
        assert_eq!(of(text.as_bytes()), expected, "{text:?}");
    }
}

#[test]
fn bytes() {
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    assert_eq!(of(&utf16("|x 1 2\n|x 3 4\n")), FileFormat::Utf16);
    assert_eq!(of(&utf16("\u{feff}|x 1 2\n")), FileFormat::Utf16);
    assert_eq!(of(b"nib_ktnc\x01\0\0\0"), FileFormat::Cbf);
    assert_eq!(of(b"utt1 \0BFM \x04"), FileFormat::KaldiArchive);
    assert_eq!(of(b"BM\x46\0\0\0\0\0\0\0\x36\0\0\0"), FileFormat::Bmp);
    assert_eq!(of(b"RIFF\x24\0\0\0WEBPVP8 "), FileFormat::Webp);
    assert_eq!(of(b"\x01\x02\0\xff\xfe"), FileFormat::Bytes);
    assert_eq!(of(b"caf\xe9 au lait"), FileFormat::Bytes);
    assert_eq!(of(b"|x 1 2 |# caf\xe9\n|x 1 2\n"), FileFormat::CtfLines);
    assert_eq!(of(b"7 |x 1 2\n7 |x 1\0 2\n"), FileFormat::CtfIds);
    assert_eq!(of(b"7 |x 1\0 2\n"), FileFormat::Bytes);
    let mut htk = vec![0, 0, 0, 2, 0, 1, 0x86, 0xa0, 0, 8, 0, 6];
    htk.extend([1; 16]);
    assert_eq!(of(&htk), FileFormat::HtkFeatures);
    assert_ne!(FileFormat::of_bytes(&htk, 1000), FileFormat::HtkFeatures);
}

#[test]
fn images_as_base64() {
    let jpeg = "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJ";
    let png = "iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAIAAAD8GO2jAAAA";
    for text in [
        format!("0\t{jpeg}\n1\t{png}\n"),
        format!("k1\t0\t{jpeg}\nk2\t1\t{png}\n"),
        format!("7\t0\t{jpeg}\n8\t1\t!!!!\n"),
        format!("7\t0\t{jpeg}\tmore\n"),
        format!("0\tb'{jpeg}'\n"),
        format!("0\t\"{}\"\n", jpeg.replace('/', "_")),
        format!("0\tdata:image/png;base64,{png}\n"),
    ] {
        assert_eq!(of(text.as_bytes()), FileFormat::Base64Images, "{text}");
    }
    let long = format!("k1\t0\t{jpeg}{}\n", "A".repeat(100_000));
    assert_eq!(FileFormat::of_bytes(&long.as_bytes()[..HEAD], long.len() as u64), FileFormat::Base64Images);
    assert_eq!(of(b"1\tQk\n2\tQuick\n"), FileFormat::Tsv);
}

#[test]
fn archives_and_placeholders_are_recognized() {
    let mut tar = vec![b'a'; 512];
    tar[257..262].copy_from_slice(b"ustar");
    for (bytes, expected) in [
        (&tar[..], FileFormat::Archive),
        (b"7z\xbc\xaf\x27\x1c\0\x04", FileFormat::Archive),
        (b"Rar!\x1a\x07\x01\0", FileFormat::Archive),
        (b"\x5d\0\0\x80\0\xff", FileFormat::OtherCompressed),
        (b"<!DOCTYPE html>\n<html>404</html>\n", FileFormat::Html),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", FileFormat::GitLfs),
    ] {
        assert_eq!(of(bytes), expected);
    }
    assert!(FileFormat::Gzip.advice_on("a.ctf.gz").contains("compressed twice"));
    assert!(FileFormat::Gzip.advice_on("a.ctf").contains("ends in '.gz'"));
}

#[test]
fn truncated_head_is_enough() {
    let line = "1,2,3,4,5\n".repeat(1000);
    assert_eq!(FileFormat::of_bytes(&line.as_bytes()[..HEAD], line.len() as u64), FileFormat::Csv);
    let text = "\u{e4}".repeat(3000);
    assert_eq!(FileFormat::of_bytes(&text.as_bytes()[..HEAD - 1], 6000), FileFormat::Text);
    let one = vec![b'|'; 3];
    assert_eq!(FileFormat::of_bytes(&one, 1 << 40), FileFormat::Text);
}

#[test]
fn any_bytes_have_a_format() {
    let mut state = 1u64;
    for size in (0..200).chain([HEAD, 2 * HEAD]) {
        let bytes: Vec<u8> = (0..size)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                b"|# \n1a.,=\0[:\xff"[(state >> 33) as usize % 13]
            })
            .collect();
        assert!(!of(&bytes).describe().is_empty());
    }
}
