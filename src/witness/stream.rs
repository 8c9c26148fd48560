//! The stream to the agent: what was said is said again to the next agent.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::speaker::{Instance, Order, Place, Speaker};

/// The form of the lines.
const VERSION: u32 = 1;

/// The pauses between two tries, doubled from the first to the last.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// An agent answers within it, or it isn't one.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Bytes of an answer that say whether the agent has accepted, and why not.
const ANSWER_BYTES_MAX: usize = 4_096;

/// Orders that one write has at most.
const ORDERS_MAX: usize = 1_000;

/// Speaks until the last instance is gone.
pub(super) async fn speak(speaker: &Speaker, orders: UnboundedReceiver<Order>) {
    let mut told = Told { orders, instances: BTreeSet::new() };
    let mut pause = PAUSE_MIN;
    loop {
        let mut is_accepted = false;
        let Some(why) = told.by_one_stream(speaker, &mut is_accepted).await else { return };
        speaker.failed(&why);
        pause = if is_accepted { PAUSE_MIN } else { pause };
        tokio::select! {
            () = sleep(pause) => {}
            () = told.takes_notes() => return,
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// The instances that there are.
struct Told {
    orders: UnboundedReceiver<Order>,
    instances: BTreeSet<Instance>,
}

impl Told {
    /// Says all there is to say by one stream. Returns why it has ended; nothing if nobody is left.
    async fn by_one_stream(&mut self, speaker: &Speaker, is_accepted: &mut bool) -> Option<String> {
        let (reads, writes) = match open(&speaker.place).await {
            Ok(stream) => stream.into_split(),
            Err(why) => return Some(why),
        };
        let answered = async {
            let why = accepted(&reads).await;
            if why.is_none() {
                *is_accepted = true;
                speaker.accepted();
            }
            match why {
                Some(why) => why,
                None => ended(reads).await,
            }
        };
        tokio::select! {
            why = answered => Some(why),
            why = self.says(&speaker.place, writes) => why,
        }
    }

    /// Says what there is, and whatever is ordered from then on.
    async fn says(&mut self, place: &Place, mut writes: OwnedWriteHalf) -> Option<String> {
        let mut lines = head(place);
        let mut all = String::new();
        self.instances.iter().for_each(|instance| line(&mut all, instance, false));
        lines.push_str(&chunk(&all));
        let mut waiting = Vec::new();
        loop {
            if let Err(error) = writes.write_all(lines.as_bytes()).await {
                return Some(format!("the stream has ended: {error}"));
            }
            // The agent reads it before it reads the end of the stream, whenever that comes.
            for said in waiting.drain(..) {
                let _: Result<(), ()> = oneshot::Sender::send(said, ());
            }
            let mut orders = Vec::new();
            if self.orders.recv_many(&mut orders, ORDERS_MAX).await == 0 {
                return None;
            }
            let mut news = String::new();
            for order in orders {
                waiting.extend(self.note(order, &mut news));
            }
            lines = chunk(&news);
        }
    }

    /// Notes what is ordered while no agent listens, until nobody is left. Attempts don't wait.
    async fn takes_notes(&mut self) {
        while let Some(order) = self.orders.recv().await {
            drop(self.note(order, &mut String::new()));
        }
    }

    /// Notes it, before it is said: what isn't heard now is said by the next stream.
    fn note(&mut self, order: Order, news: &mut String) -> Option<oneshot::Sender<()>> {
        match order {
            Order::Begins { instance, said } => {
                line(news, &instance, false);
                self.instances.insert(instance);
                Some(said)
            }
            Order::Over { instance } => {
                line(news, &instance, true);
                self.instances.remove(&instance);
                None
            }
        }
    }
}

/// Connects. Children have the stream, too: one that works on after its parent keeps its end from being seen.
async fn open(place: &Place) -> Result<UnixStream, String> {
    if place.database.is_none() {
        let cure = "give the database's path in its place";
        return Err(format!("a client that was given doesn't tell its database; {cure}"));
    }
    let stream = UnixStream::connect(&place.socket).await.map_err(|error| error.to_string())?;
    fcntl_setfd(&stream, FdFlags::empty()).map_err(|error| error.to_string())?;
    Ok(stream)
}

fn head(place: &Place) -> String {
    let database = json(place.database.as_deref().unwrap_or_default());
    let (table, pid) = (json(&place.table), std::process::id());
    let first =
        format!("{{\"v\":{VERSION},\"database\":{database},\"table\":{table},\"pid\":{pid}}}\n");
    let request = "POST /v1/witness HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked";
    format!("{request}\r\nContent-Type: application/x-ndjson\r\n\r\n{}", chunk(&first))
}

fn line(lines: &mut String, Instance { lock, nonce }: &Instance, is_gone: bool) {
    let (lock, gone) = (json(lock), if is_gone { ",\"gone\":true" } else { "" });
    // A string takes what is written.
    let _ = writeln!(lines, "{{\"lock\":{lock},\"nonce\":\"{nonce:016x}\"{gone}}}");
}

/// An empty one would end the request.
fn chunk(lines: &str) -> String {
    if lines.is_empty() { String::new() } else { format!("{:x}\r\n{lines}\r\n", lines.len()) }
}

fn json(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            // A string takes what is written.
            _ if character < ' ' => drop(write!(quoted, "\\u{:04x}", u32::from(character))),
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns nothing once the agent has accepted; otherwise why it doesn't.
async fn accepted(reads: &OwnedReadHalf) -> Option<String> {
    let mut answer = Vec::new();
    let reading = async {
        loop {
            reads.readable().await?;
            let mut part = [0; 1_024];
            match reads.try_read(&mut part) {
                Ok(0) => break,
                Ok(length) => answer.extend_from_slice(&part[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            }
            // A refusal is read to its end: it says why.
            if answer.starts_with(b"HTTP/1.1 200") || answer.len() > ANSWER_BYTES_MAX {
                break;
            }
        }
        Ok(())
    };
    match timeout(ANSWER_LIMIT, reading).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Some(format!("no answer: {error}")),
        Err(_) => return Some(format!("no answer within {ANSWER_LIMIT:?}")),
    }
    if answer.starts_with(b"HTTP/1.1 200") {
        return None;
    }
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.lines().next().unwrap_or("no answer");
    Some(format!("{status}: {}", body.trim()))
}

/// Reads on until the stream ends: what comes has no meaning.
async fn ended(mut reads: OwnedReadHalf) -> String {
    let mut part = [0; 1_024];
    loop {
        match reads.read(&mut part).await {
            Ok(0) => return "the agent has ended the stream".to_string(),
            Ok(_) => {}
            Err(error) => return format!("the stream has ended: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_data_in_a_line_and_a_chunk_says_its_length() {
        let names = ["billing", "o'brien \"quoted\"", "line\nbreak\u{1}", "b\\ack", "größe", ""];
        for name in names {
            let mut lines = String::new();
            line(&mut lines, &Instance { lock: name.into(), nonce: 0xfeed }, true);
            assert_eq!(lines.matches('\n').count(), 1, "{lines}");
            let read: serde_json::Value = serde_json::from_str(&lines).unwrap();
            let nonce = "000000000000feed";
            let expected = serde_json::json!({ "lock": name, "nonce": nonce, "gone": true });
            assert_eq!(read, expected);
            let framed = chunk(&lines);
            let (length, rest) = framed.split_once("\r\n").unwrap();
            assert_eq!(usize::from_str_radix(length, 16).unwrap(), rest.len() - 2);
        }
        assert_eq!(chunk(""), "", "an empty chunk would end the request");
    }
}
