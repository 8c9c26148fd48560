use std::time::Duration;

use crate::{Act, Answer, Change, Holder, Rejection, Row, TermId, Timestamp};

/// A writer after its first commit: it has stopped new readers, and waits for those there are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stopped {
    first: TermId,
    lease: Duration,
}

/// The next thing for a writer that has stopped new readers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WriterDecision {
    /// Readers are at work: poll again after so long, if not before.
    Wait(Duration),
    /// Nobody reads any more: this is the second commit.
    Begin(Change),
    /// The second commit is applied, and this is the writer's term.
    Began(TermId),
    /// Somebody else has the writers' row: the writer must start over.
    Lost,
}

impl Stopped {
    /// Returns the state of the writer that began this first term.
    pub fn new(first: TermId, lease: Duration) -> Stopped {
        Stopped { first, lease }
    }

    /// Returns what to do, now that the writers' row and the rows of all readers were read at one timestamp.
    ///
    /// No reader can have begun since the writers' row became this writer's. So these rows are all there
    /// are.
    pub fn sees(
        &self,
        writer_row: Option<&Row>,
        readers: &[(String, Row)],
        read_at: Timestamp,
        holder: &Holder,
    ) -> WriterDecision {
        let Some(writer_row) = writer_row else { return WriterDecision::Lost };
        if let Some(second) = self.first.second_in(writer_row.token, &writer_row.writer) {
            return WriterDecision::Began(second);
        }
        if writer_row.token != self.first.token || writer_row.writer != self.first.writer {
            return WriterDecision::Lost;
        }
        let taken_until = readers.iter().map(|(_, row)| row.vacant_for_all_from(self.lease));
        match taken_until.filter(|until| *until > read_at).max() {
            Some(until) => WriterDecision::Wait(until.since(read_at)),
            None => WriterDecision::Begin(Change::BeginWrite {
                first: self.first.clone(),
                readers: readers.to_vec(),
                holder: holder.clone(),
            }),
        }
    }

    /// Returns the writer's term, if the answer to the second commit says that it has begun.
    ///
    /// An attempt whose outcome is unknown is simply repeated: at most one of them can be applied,
    /// and the one that is refused for that finds it.
    pub fn answered(&self, answer: &Answer) -> Option<TermId> {
        match answer {
            Answer::Applied { at } => {
                Some(TermId { token: *at, writer: self.first.writer.second()? })
            }
            Answer::Rejected(Rejection::Changed(Some(seen))) => {
                self.first.second_in(seen.token, &seen.writer)
            }
            _ => None,
        }
    }
}

/// A writer's view of its row, as its instance knows it: by the first of its two terms.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Writing {
    /// The first term and the second, once that has begun.
    begun: Option<(TermId, TermId)>,
}

impl Writing {
    /// Notes that the second term has begun after the first.
    pub fn begins(&mut self, first: TermId, second: TermId) {
        self.begun = Some((first, second));
    }

    /// Returns the change that the instance's act asks for; none for one that changes nothing.
    ///
    /// Until the second term is known, heartbeats and the release are good for either: an attempt
    /// may have been applied of which nobody has heard.
    pub fn change(&self, act: &Act, holder: &Holder) -> Option<Change> {
        let second = |term: &TermId| {
            let begun = self.begun.as_ref().filter(|(first, _)| first == term);
            begun.map(|(_, second)| second.clone())
        };
        match act {
            Act::Heartbeat { term, .. } => Some(match second(term) {
                Some(term) => Change::Heartbeat { term, looks: false },
                None => Change::KeepWriting { first: term.clone() },
            }),
            Act::Release { term, next } => {
                let next = next.clone();
                Some(match second(term) {
                    Some(term) => Change::Release { term, next, info: None },
                    None => Change::EndWriting { first: term.clone(), next },
                })
            }
            _ => act.change(holder, None),
        }
    }
}
