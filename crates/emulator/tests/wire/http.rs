//! One request over HTTP, for what is served beside gRPC.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The reply.
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

pub async fn send(endpoint: &str, request: &str, body: &str) -> Reply {
    let address = endpoint.strip_prefix("http://").unwrap();
    send_with(endpoint, request, &format!("host: {address}"), body).await
}

/// Sends a request with these headers, separated by line breaks.
pub async fn send_with(endpoint: &str, request: &str, headers: &str, body: &str) -> Reply {
    let address = endpoint.strip_prefix("http://").unwrap();
    let headers = headers.replace('\n', "\r\n");
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let text = format!(
        "{request} HTTP/1.1\r\n{headers}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Reply { status, head: head.to_owned(), body: body.to_owned() }
}
