//! An HTTP server inside the test process that supports ranges, and a file system that reads from
//! it.

use cntk_reader::files::{FileSystem, RemoteFile};
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Files by their paths, and the requests received.
#[derive(Default)]
pub struct Server {
    pub files: Mutex<HashMap<String, Vec<u8>>>,
    pub requests: AtomicUsize,
    /// Number of requests to answer with "503 Service Unavailable".
    pub busy: AtomicUsize,
}

impl Server {
    /// Starts a server, and returns its address.
    pub fn start() -> (Arc<Server>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let server = Arc::new(Server::default());
        let shared = Arc::clone(&server);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (shared, stream) = (Arc::clone(&shared), stream.expect("a connection"));
                std::thread::spawn(move || shared.answer(stream).expect("an answer"));
            }
        });
        (server, address)
    }

    pub fn put(&self, path: &str, content: &[u8]) {
        self.files.lock().expect("no panics").insert(path.to_owned(), content.to_vec());
    }

    /// Answers one request: HEAD, or GET of a range.
    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let lines: Vec<String> = BufReader::new(&stream)
            .lines()
            .map_while(|line| line.ok().filter(|line| !line.is_empty()))
            .collect();
        let (method, path) = lines[0].split_once(' ').expect("a request");
        let path = path.split(' ').next().expect("a path");
        let take = |count: usize| count.checked_sub(1);
        if self.busy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            return stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
        }
        let files = self.files.lock().expect("no panics");
        let Some(content) = files.get(path) else {
            return stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        };
        let sum: u64 = content.iter().fold(7, |sum, &byte| sum * 31 % 1_000_003 + u64::from(byte));
        let range = lines.iter().find_map(|line| line.strip_prefix("Range: bytes="));
        let (status, body) = match range {
            Some(range) => {
                let (start, end) = range.split_once('-').expect("a range");
                let (start, end): (usize, usize) =
                    (start.parse().expect("a number"), end.parse().expect("a number"));
                ("206 Partial Content", &content[start..content.len().min(end + 1)])
            }
            None => ("200 OK", &content[..]),
        };
        let head = format!("HTTP/1.1 {status}\r\nETag: \"{sum}\"\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes())?;
        if method == "GET" {
            stream.write_all(body)?;
        }
        Ok(())
    }
}

/// A file system that reads from the server.
pub struct Http;

struct HttpFile {
    address: String,
    path: String,
    size: u64,
}

impl FileSystem for Http {
    fn open(&self, path: &str) -> io::Result<Box<dyn RemoteFile>> {
        let (_, rest) = path.split_once("://").expect("a scheme");
        let (address, path) = rest.split_at(rest.find('/').expect("a path"));
        let mut file = HttpFile { address: address.to_owned(), path: path.to_owned(), size: 0 };
        file.size = file.request("HEAD", "")?.0;
        Ok(Box::new(file))
    }
}

impl HttpFile {
    /// Returns the size in the answer, its ETag, and its body.
    fn request(&self, method: &str, range: &str) -> io::Result<(u64, Vec<u8>, Vec<u8>)> {
        let mut stream = TcpStream::connect(&self.address)?;
        write!(stream, "{method} {} HTTP/1.1\r\nHost: {}\r\n{range}\r\n", self.path, self.address)?;
        let mut answer = BufReader::new(stream);
        let mut status = String::new();
        answer.read_line(&mut status)?;
        match status.split(' ').nth(1) {
            Some("200" | "206") => {}
            Some("503") => return Err(io::Error::new(io::ErrorKind::TimedOut, status.trim().to_owned())),
            _ => return Err(io::Error::other(status.trim().to_owned())),
        }
        let (mut size, mut tag) = (0, Vec::new());
        loop {
            let mut line = String::new();
            answer.read_line(&mut line)?;
            match line.trim().split_once(": ") {
                Some(("Content-Length", value)) => size = value.parse().expect("a number"),
                Some(("ETag", value)) => tag = value.as_bytes().to_vec(),
                Some(_) => {}
                None => break,
            }
        }
        let mut body = Vec::new();
        answer.read_to_end(&mut body)?;
        Ok((size, tag, body))
    }
}

impl RemoteFile for HttpFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let end = self.size.min(offset + buffer.len() as u64);
        if end <= offset {
            return Ok(0);
        }
        let (_, _, body) = self.request("GET", &format!("Range: bytes={offset}-{}\r\n", end - 1))?;
        buffer[..body.len()].copy_from_slice(&body);
        Ok(body.len())
    }

    fn identity(&self) -> io::Result<Vec<u8>> {
        Ok(self.request("HEAD", "")?.1)
    }
}
