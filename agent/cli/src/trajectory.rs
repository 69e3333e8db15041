//! What one sample did, read back from its event log as turns: a request to the model, its reply, and the calls that the
//! reply led to. For those who look at a run or hand it on; what plays it again is `recording`.

mod lines;
mod turn;

use std::io;

use fs_err::File;
use gaia_agent::{AgentEvent, Message, Outcome, Part};
use time::OffsetDateTime;

use crate::recording::step;
use crate::store::SampleDirectory;
pub(crate) use lines::{EventLine, EventLines};
pub(crate) use turn::milliseconds;
pub use turn::{Call, CallResult, Reply, Turn};

/// One attempt of a sample. One that is lost, cut or still under way has what there is.
#[derive(Debug, Default)]
pub struct Trajectory {
    /// Which attempt this is.
    pub attempt: u32,
    /// All there are, first to last.
    pub attempts: Vec<u32>,
    pub started: Option<OffsetDateTime>,
    /// When the last thing happened.
    pub ended: Option<OffsetDateTime>,
    /// Canonical names of the offered tools.
    pub tools: Vec<String>,
    /// What the model was told first.
    pub messages: Vec<Message>,
    /// In the order in which they began.
    pub entries: Vec<Entry>,
    /// As the loop told it; absent while the attempt runs or when it was lost.
    pub outcome: Option<Outcome>,
    /// Lines that are no events, or too long to be read.
    pub unreadable: u64,
}

#[derive(Debug)]
pub enum Entry {
    Turn(Box<Turn>),
    Note(Note),
}

/// Something that happened beside the turns.
#[derive(Debug)]
pub struct Note {
    pub time: Option<OffsetDateTime>,
    pub branch: Option<String>,
    pub what: Noted,
}

#[derive(Debug)]
pub enum Noted {
    Event(Box<AgentEvent>),
    /// An event of a kind that this program does not know, as it stands in the log.
    Unknown(String),
}

impl Trajectory {
    /// Reads an attempt, the last one when none is named. `None` when the sample has not been begun.
    pub fn read(sample: &SampleDirectory, attempt: Option<u32>) -> io::Result<Option<Self>> {
        let file = match File::open(sample.events_path()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut read = Self::default();
        for line in EventLines::new(file) {
            read.take(line?, attempt);
        }
        if read.attempts.is_empty() {
            return Ok(None);
        }
        let turns = read.entries.iter_mut().filter_map(|entry| match entry {
            Entry::Turn(turn) => Some(turn),
            Entry::Note(_) => None,
        });
        for (number, turn) in (1..).zip(turns) {
            turn.number = number;
        }
        Ok(Some(read))
    }

    pub fn turns(&self) -> impl DoubleEndedIterator<Item = &Turn> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Turn(turn) => Some(turn.as_ref()),
            Entry::Note(_) => None,
        })
    }

    fn take(&mut self, line: EventLine, wanted: Option<u32>) {
        let (time, branch, event) = match line {
            EventLine::Event { time, branch, event } => (time, branch, event),
            EventLine::Unknown { time, branch, text } => {
                if self.is_wanted(wanted) {
                    self.entries.push(Entry::Note(Note { time, branch, what: Noted::Unknown(text) }));
                }
                return;
            }
            EventLine::Unreadable => {
                self.unreadable += 1;
                return;
            }
        };
        match *event {
            AgentEvent::Started { attempt, tools, messages, .. } => {
                self.attempts.push(attempt);
                if self.is_wanted(wanted) {
                    let attempts = std::mem::take(&mut self.attempts);
                    let started = time;
                    *self =
                        Self { attempt, attempts, started, ended: time, tools, messages, ..Self::default() };
                }
            }
            AgentEvent::Continued { attempt, after_step } => {
                self.attempts.push(attempt);
                if self.is_wanted(wanted) {
                    self.attempt = attempt;
                    self.outcome = None;
                    // What came after the last whole turn was lost, and was done again.
                    self.entries.retain(|entry| match entry {
                        Entry::Turn(turn) => turn.step <= after_step,
                        Entry::Note(Note { what: Noted::Event(event), .. }) => {
                            step(event).is_none_or(|step| step <= after_step)
                        }
                        Entry::Note(_) => true,
                    });
                    let event = Box::new(AgentEvent::Continued { attempt, after_step });
                    self.note(time, branch, event);
                }
            }
            event if self.is_wanted(wanted) => {
                self.ended = time.or(self.ended);
                self.add(time, branch, Box::new(event));
            }
            _ => {}
        }
    }

    /// Whether what comes now belongs to the attempt that is read.
    fn is_wanted(&self, wanted: Option<u32>) -> bool {
        wanted.is_none_or(|wanted| self.attempts.last().is_none_or(|current| *current <= wanted))
    }

    fn add(&mut self, time: Option<OffsetDateTime>, branch: Option<String>, event: Box<AgentEvent>) {
        match *event {
            AgentEvent::ModelCall { step, .. } => {
                self.entries.push(Entry::Turn(Box::new(Turn {
                    branch,
                    step,
                    asked: time,
                    ..Turn::default()
                })));
            }
            AgentEvent::ModelReply { step, .. } => self.turn(branch, step).reply(time, *event),
            AgentEvent::ModelFailed { step, failure } => {
                self.turn(branch, step).failure = Some(failure.message);
            }
            AgentEvent::ModelRetry { step, attempt, reason, wait_ms } => {
                let text = format!("attempt {attempt} failed, again after {wait_ms} ms: {reason}");
                self.turn(branch, step).notices.push(text);
            }
            AgentEvent::ModelNotice { step, text } => self.turn(branch, step).notices.push(text),
            AgentEvent::ToolStarted { step, .. } | AgentEvent::ToolResult { step, .. } => {
                self.turn(branch, step).call(time, *event);
            }
            AgentEvent::Finished { outcome } => self.outcome = Some(outcome),
            other => self.note(time, branch, Box::new(other)),
        }
    }

    fn note(&mut self, time: Option<OffsetDateTime>, branch: Option<String>, event: Box<AgentEvent>) {
        self.entries.push(Entry::Note(Note { time, branch, what: Noted::Event(event) }));
    }

    /// The last turn of that step and role; a new one where the log has no request for it, as with agents of others.
    fn turn(&mut self, branch: Option<String>, step: u32) -> &mut Turn {
        let is_it = |entry: &Entry| match entry {
            Entry::Turn(turn) => turn.step == step && turn.branch == branch,
            Entry::Note(_) => false,
        };
        let index = self.entries.iter().rposition(is_it).unwrap_or_else(|| {
            self.entries.push(Entry::Turn(Box::new(Turn { branch, step, ..Turn::default() })));
            self.entries.len() - 1
        });
        match &mut self.entries[index] {
            Entry::Turn(turn) => turn,
            Entry::Note(_) => unreachable!("the entry was chosen because it is a turn"),
        }
    }
}

/// The text of the first message that is the user's.
pub(crate) fn question_of(messages: &[Message]) -> Option<String> {
    messages.iter().find_map(|message| match message {
        Message::User { content } => {
            let texts: Vec<&str> = content.iter().filter_map(Part::text).collect();
            Some(texts.join("\n"))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::test_run::{Ending, stored_run};
    use crate::store::SampleKey;

    /// What the log has, read back; each line gets a time.
    fn read(lines: &[&str], attempt: Option<u32>) -> Option<Trajectory> {
        let runs = tempfile::tempdir().unwrap();
        let (run, _record, _lock) = stored_run(runs.path(), &[(1, Ending::Correct)]);
        let sample = run.sample(&SampleKey { task_id: "task-0".to_owned(), epoch: 1 });
        let timed = lines.iter().zip(10..).map(|(line, second)| {
            line.replacen('{', &format!("{{\"time\":\"2026-01-01T00:00:{second}Z\","), 1)
        });
        fs_err::write(sample.events_path(), timed.collect::<Vec<_>>().join("\n")).unwrap();
        Trajectory::read(&sample, attempt).unwrap()
    }

    const STARTED: &str = r#"{"type":"started","attempt":1,"tools":["a/b"],"messages":[]}"#;
    const ASKED: &str = r#"{"type":"model_call","step":1}"#;
    const CALLED: &str = r#"{"type":"model_reply","step":1,"content":"x","tool_calls":[{"id":"c","name":"b","arguments":"{}"}],"finish_reason":"tool_calls","usage":{},"duration_ms":500}"#;
    const BEGUN: &str = r#"{"type":"tool_started","step":1,"call_id":"c","tool":"a/b","arguments":{}}"#;
    const RESULT: &str = r#"{"type":"tool_result","step":1,"call_id":"c","tool":"a/b","content":[{"type":"text","text":"y"}],"is_error":true,"duration_ms":1000}"#;

    #[test]
    fn calls_stand_with_their_results_in_the_turn_that_made_them() {
        let read = read(&[STARTED, ASKED, CALLED, BEGUN, RESULT, ASKED, ""], None).unwrap();
        let turns: Vec<&Turn> = read.turns().collect();
        assert_eq!(turns.iter().map(|turn| turn.number).collect::<Vec<_>>(), [1, 2]);
        let call = &turns[0].calls[0];
        assert_eq!((call.tool.as_str(), call.is_error(), call.duration_ms()), ("a/b", true, 1000));
        assert_eq!(call.result.as_ref().unwrap().text(), "y");
        assert_eq!(turns[0].ended().unwrap() - turns[0].begun().unwrap(), time::Duration::seconds(3));
        // A summary is asked for in the step of the turn after it: another request, another turn.
        assert!(turns[1].reply.is_none() && turns[1].asked.is_some());
    }

    #[test]
    fn an_agent_of_others_has_turns_of_calls_alone() {
        let read = read(&[STARTED, BEGUN, RESULT, ""], None).unwrap();
        let turn = read.turns().next().unwrap();
        assert!(turn.reply.is_none() && turn.asked.is_none());
        assert_eq!((turn.calls.len(), turn.calls[0].arguments.as_str()), (1, "{}"));
    }

    #[test]
    fn each_attempt_is_read_alone_and_one_that_goes_on_keeps_its_whole_turns() {
        let second = STARTED.replace("\"attempt\":1", "\"attempt\":2");
        let later = ASKED.replace("\"step\":1", "\"step\":2");
        let continued = r#"{"type":"continued","attempt":3,"after_step":1}"#;
        let lines = [STARTED, ASKED, ASKED, &second, ASKED, CALLED, &later, continued, &later, ""];
        let steps = |attempt| {
            let read = read(&lines, attempt).unwrap();
            (read.attempt, read.attempts.len(), read.turns().map(|turn| turn.step).collect::<Vec<_>>())
        };
        assert_eq!(steps(Some(1)), (1, 3, vec![1, 1]));
        assert_eq!(steps(Some(2)), (2, 3, vec![1, 2]));
        assert_eq!(steps(None), (3, 3, vec![1, 2]));
    }

    #[test]
    fn what_is_no_event_is_counted_and_a_torn_end_is_not() {
        let unknown = r#"{"type":"of_later","step":1}"#;
        let read = read(&[STARTED, unknown, "no JSON", r#"{"type":"model_ca"#], None).unwrap();
        assert_eq!(read.unreadable, 1);
        assert!(
            matches!(&read.entries[..], [Entry::Note(Note { what: Noted::Unknown(text), .. })] if text.contains("of_later"))
        );
        assert!(super::tests::read(&["no JSON", ""], None).is_none());
    }
}
