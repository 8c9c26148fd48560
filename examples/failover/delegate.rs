//! A process that works for a leader and knows nothing of the lock but a fence, received as text.

use std::io::BufRead as _;

use spindle::Fence;
use tokio::sync::mpsc;

use crate::fleet::Failure;
use crate::orders::{Orders, log};

/// Keeps the fence that it is given, and writes one order under it when it is told to.
pub async fn work(endpoint: &str, id: &str) -> Result<(), Failure> {
    let orders = Orders::connect(endpoint, id).await?;
    let mut input = input();
    let mut fence: Option<Fence> = None;
    while let Some(line) = input.recv().await {
        if let Some(text) = line.strip_prefix("fence ") {
            let received: Fence = serde_json::from_str(text)?;
            log(&format!("received the fence of token {}", received.token()));
            fence = Some(received);
        } else if line == "send" {
            orders.write_late(fence.take().ok_or("a delegate without a fence can't write")?).await;
        }
    }
    Ok(())
}

fn input() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    receiver
}
