//! An event stream as a browser reads it, byte by byte if need be.

use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use super::DEADLINE;
use super::client::Call;

/// What stands between two blank lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frame {
    /// `id:`
    pub id: Option<String>,
    /// `event:`
    pub event: Option<String>,
    /// `data:`, its lines joined.
    pub data: Option<String>,
    /// `retry:`
    pub retry: Option<u64>,
    /// A comment.
    pub comment: Option<String>,
}

impl Frame {
    /// The data as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(self.data.as_deref().expect("data")).unwrap()
    }

    pub(super) fn parse(text: &str) -> Self {
        let mut frame = Self::default();
        for line in text.lines() {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
            match field {
                "" => frame.comment = Some(value),
                "id" => frame.id = Some(value),
                "event" => frame.event = Some(value),
                "retry" => frame.retry = Some(value.parse().unwrap()),
                "data" => match &mut frame.data {
                    Some(data) => data.extend(["\n", value.as_str()]),
                    none => *none = Some(value),
                },
                other => panic!("a field no event stream has: {other:?} in {text:?}"),
            }
        }
        frame
    }
}

/// An open stream; dropping it closes the connection.
#[derive(Debug)]
pub struct EventStream {
    response: reqwest::Response,
    /// Everything that came, from the first byte on.
    raw: Vec<u8>,
    /// How much of it was handed out.
    taken: usize,
    /// The newest id, as a browser remembers it.
    last_id: Option<String>,
}

impl EventStream {
    /// Opens one that is answered with 200.
    pub async fn open(call: Call) -> Self {
        let response = call.header("accept", "text/event-stream").send().await;
        assert_eq!(response.status(), 200, "{:?}", response.text().await);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self {
            response,
            raw: Vec::new(),
            taken: 0,
            last_id: None,
        }
    }

    /// The headers it was answered with.
    pub fn headers(&self) -> &reqwest::header::HeaderMap {
        self.response.headers()
    }

    /// Every byte that came so far.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// What a browser would send as `Last-Event-ID`.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// The next frame of any kind; `None` at the end of the stream.
    pub async fn next_frame(&mut self, deadline: Duration) -> Option<Frame> {
        timeout(deadline, self.read_frame())
            .await
            .unwrap_or_else(|_| panic!("no frame before the deadline, after {:?}", self.text()))
    }

    /// The next frame with an event, past heartbeats, hints and bare ids.
    pub async fn next_event(&mut self) -> Frame {
        let reading = async {
            loop {
                let frame = self.read_frame().await?;
                if frame.data.is_some() {
                    return Some(frame);
                }
            }
        };
        let read = timeout(DEADLINE, reading).await;
        read.unwrap_or_else(|_| panic!("no event before the deadline, after {:?}", self.text()))
            .unwrap_or_else(|| panic!("the stream ended after {:?}", self.text()))
    }

    /// Reads on until the server ends the stream, and gives the events that still came.
    pub async fn rest(&mut self) -> Vec<Frame> {
        let reading = async {
            let mut events = Vec::new();
            while let Some(frame) = self.read_frame().await {
                events.extend(frame.data.is_some().then_some(frame));
            }
            events
        };
        timeout(DEADLINE, reading)
            .await
            .unwrap_or_else(|_| panic!("no end before the deadline, after {:?}", self.text()))
    }

    /// What came last, for a message.
    fn text(&self) -> String {
        let from = self.raw.len().saturating_sub(4_000);
        String::from_utf8_lossy(&self.raw[from..]).into_owned()
    }

    /// Safe to be dropped at its await: what was read is kept.
    async fn read_frame(&mut self) -> Option<Frame> {
        loop {
            let fresh = &self.raw[self.taken..];
            if let Some(end) = fresh.windows(2).position(|pair| pair == b"\n\n") {
                let text = std::str::from_utf8(&fresh[..end]).expect("a stream is UTF-8");
                let frame = Frame::parse(text);
                self.taken += end + 2;
                if frame.id.is_some() {
                    self.last_id.clone_from(&frame.id);
                }
                return Some(frame);
            }
            // An end in the middle of a chunk is an end, too: a browser comes back after both.
            let chunk = self.response.chunk().await.ok().flatten()?;
            self.raw.extend_from_slice(&chunk);
        }
    }
}
