//! The loop of a chat.

use std::{path::Path, process::ExitCode, time::Duration};

use anyhow::{Result, anyhow, bail};
use pelton::{
    EffortLevel, ErrorKind, FinishReason, GenerateOptions, Model, Stats,
    chat::{Chat, ChatTemplate, Content, Message, ToolChoice},
};
use serde_json::{Map, Value};

use super::{
    Conversation, Input, Params, Screen,
    command::{self, Command, Entry},
    conversation::said,
    input::Read,
    tools::{ROUNDS_MAX, Tools},
};
use crate::{
    constrain::ConstraintArgs,
    interrupt::{EXIT_CODE, Interrupt},
    new_file,
    output::{self, WithHint},
    pictures,
    progress::Progress,
};

/// Presses of Ctrl-C in a row, without an answer to stop, before the process ends.
const PATIENCE: u32 = 2;

/// The options of reasoning, for the template.
#[derive(Clone, Debug, Default)]
pub(crate) struct Thinking {
    pub(crate) enable: Option<bool>,
    pub(crate) effort: Option<String>,
    pub(crate) kwargs: Map<String, Value>,
}

/// The answer to messages that fill the context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Overflow {
    /// The message is refused
    #[default]
    Stop,
    /// The oldest messages are forgotten, but the system message stays
    Drop,
}

/// The form and the room of answers.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pub(crate) stop: Vec<String>,
    pub(crate) constraint: ConstraintArgs,
    pub(crate) overflow: Overflow,
}

/// The sums of the tokens and times of all answers of a chat.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    answers: usize,
    prompt: usize,
    cached: usize,
    generated: usize,
    time: Duration,
}

/// The settings with which a chat begins.
pub(crate) struct Start<'a> {
    pub(crate) model: &'a Model,
    pub(crate) template: &'a ChatTemplate,
    pub(crate) conversation: Conversation,
    /// The pictures of the first message.
    pub(crate) images: Vec<Vec<u8>>,
    pub(crate) params: Params,
    pub(crate) thinking: Thinking,
    pub(crate) tools: Tools,
    /// The effort of answers.
    pub(crate) effort: EffortLevel,
    pub(crate) answers: Answers,
    pub(crate) input: Input,
    pub(crate) screen: Screen,
    pub(crate) interrupt: Interrupt,
}

/// A chat on the command line.
pub(crate) struct Session<'a> {
    pub(crate) model: &'a Model,
    pub(crate) template: &'a ChatTemplate,
    pub(crate) conversation: Conversation,
    /// The pictures of the next message.
    images: Vec<Vec<u8>>,
    pub(crate) params: Params,
    pub(crate) thinking: Thinking,
    pub(crate) tools: Tools,
    /// The effort of answers.
    effort: EffortLevel,
    pub(crate) answers: Answers,
    pub(crate) input: Input,
    pub(crate) screen: Screen,
    pub(crate) interrupt: Interrupt,
    totals: Totals,
    last: Option<(Stats, usize)>,
    /// Answers to the same message before this one: they have other seeds.
    attempt: u64,
    failed: bool,
    /// Whether Ctrl-C ended the last answer.
    stopped: bool,
}

/// Whether the loop goes on.
enum Next {
    Input,
    Quit,
}

impl<'a> Session<'a> {
    pub(crate) fn new(start: Start<'a>) -> Self {
        Self {
            model: start.model,
            template: start.template,
            conversation: start.conversation,
            images: start.images,
            params: start.params,
            thinking: start.thinking,
            tools: start.tools,
            effort: start.effort,
            answers: start.answers,
            input: start.input,
            screen: start.screen,
            interrupt: start.interrupt,
            totals: Totals::default(),
            last: None,
            attempt: 0,
            failed: false,
            stopped: false,
        }
    }

    /// Reads and answers until the input ends. The exit code is 1 if standard input is no terminal
    /// and something failed.
    ///
    /// # Errors
    /// If the input cannot be read, or the output is closed.
    pub(crate) fn run(&mut self) -> Result<ExitCode> {
        self.interrupt.ignore(PATIENCE);
        loop {
            let text = match self.input.read("")? {
                Read::Text(text) => text,
                Read::Interrupted => {
                    self.screen.note("Ctrl-D or /quit ends");
                    continue;
                }
                Read::End => break,
            };
            if text.is_empty() {
                continue;
            }
            match self.enter(&text) {
                Ok(Next::Input) => {}
                Ok(Next::Quit) => break,
                Err(error) if crate::output::is_broken_pipe(&error) => return Err(error),
                Err(error) => {
                    self.failed = true;
                    self.screen.error(&error);
                }
            }
        }
        let failed = self.failed && !self.input.is_terminal();
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Answers one message.
    ///
    /// # Errors
    /// If it cannot be answered, or the output is closed.
    pub(crate) fn once(&mut self, text: String) -> Result<ExitCode> {
        self.say(&text);
        self.answer()?;
        Ok(match self.stopped {
            true => ExitCode::from(EXIT_CODE),
            false => ExitCode::SUCCESS,
        })
    }

    fn enter(&mut self, text: &str) -> Result<Next> {
        match command::parse(text)? {
            Entry::Message(text) => {
                self.attempt = 0;
                self.say(&text);
                self.answer()?;
            }
            Entry::Command(Command::Quit, _) => return Ok(Next::Quit),
            Entry::Command(command, argument) => self.command(command, &argument)?,
        }
        Ok(Next::Input)
    }

    /// Adds a message of the user, with the pictures that wait for it.
    fn say(&mut self, text: &str) {
        self.conversation.push(pictures::message(text, &std::mem::take(&mut self.images)));
    }

    /// Keeps a picture for the next message.
    fn show_image(&mut self, file: &str) -> Result<()> {
        let image = pictures::read(Path::new(named(file)?))?;
        pictures::check(std::slice::from_ref(&image), Some(self.template))?;
        self.images.push(image);
        self.screen.note("your next message shows the picture");
        Ok(())
    }

    fn command(&mut self, command: Command, argument: &str) -> Result<()> {
        match command {
            Command::Help => self.screen.show(&command::help())?,
            Command::Reset => {
                self.conversation.truncate(0);
                self.screen.note("all messages are forgotten");
            }
            Command::Undo => {
                let Some(message) = self.conversation.undo() else {
                    bail!("there is no message of yours to undo");
                };
                let text = said(&message);
                let line = text.lines().next().unwrap_or_default();
                self.screen.note(&format!("forgotten: {line}"));
            }
            Command::Retry => {
                if !self.conversation.retry() {
                    bail!("there is no message of yours to answer");
                }
                self.attempt += 1;
                self.answer()?;
            }
            Command::Continue => self.continue_answer()?,
            Command::Edit => return self.edit(argument),
            Command::Image => return self.show_image(argument),
            Command::System => return self.system(argument),
            Command::Save => {
                let file = named(argument)?;
                let json = format!("{:#}\n", self.conversation.to_json());
                new_file::replace(Path::new(file), json.as_bytes())?;
                self.screen.note(&format!("{} messages are saved", self.conversation.len()));
            }
            Command::Load => {
                self.conversation = Conversation::load(named(argument)?)?;
                self.show_loaded();
            }
            Command::Params if argument.is_empty() => self.screen.show(&self.params.show())?,
            Command::Params => self.params = self.params.changed(argument)?,
            Command::Think => return self.set_thinking(argument),
            Command::Effort => return self.set_effort(argument),
            Command::Stats => self.screen.show(&self.stats())?,
            Command::Tools => self.screen.show(&self.tools.show())?,
            Command::Quit => {}
        }
        Ok(())
    }

    /// Changes the user's last message and answers it.
    fn edit(&mut self, argument: &str) -> Result<()> {
        let Some(old) = self.conversation.last_text() else {
            bail!("there is no message of yours to edit");
        };
        let text = match argument {
            "" if self.input.is_terminal() => match self.input.read(&old)? {
                Read::Text(text) if !text.is_empty() => text,
                _ => return Ok(()),
            },
            "" => bail!("expected the new text of the message after /edit"),
            text => text.to_owned(),
        };
        self.attempt = 0;
        self.conversation.edit(&text);
        self.answer()
    }

    /// Shows the messages that a file had.
    pub(crate) fn show_loaded(&self) {
        self.screen.note(&self.conversation.show());
        self.screen.note(&format!("{} messages are loaded", self.conversation.len()));
    }

    /// Refuses options of reasoning that the template does not have.
    ///
    /// # Errors
    /// If there is one.
    pub(crate) fn check_thinking(&self) -> Result<()> {
        let template = self.template.template();
        if self.thinking.enable.is_some() && !template.capabilities().thinking {
            bail!(
                "the chat template has no option of reasoning, expected neither --think nor /think"
            );
        }
        if self.thinking.effort.is_some() && !template.source().contains("reasoning_effort") {
            bail!("the chat template has no levels of reasoning, expected no --reasoning-effort");
        }
        Ok(())
    }

    fn set_thinking(&mut self, argument: &str) -> Result<()> {
        let capabilities = self.template.template().capabilities();
        let enable = match argument {
            "" => {
                let on = self.thinking.enable.unwrap_or(capabilities.thinks_by_default);
                self.screen.show(if capabilities.thinking && on { "on" } else { "off" })?;
                return Ok(());
            }
            "on" | "true" => true,
            "off" | "false" => false,
            other => bail!("/think is {other:?}, expected on or off"),
        };
        let before = self.thinking.enable.replace(enable);
        let checked = self.check_thinking();
        if checked.is_err() {
            self.thinking.enable = before;
        }
        checked
    }

    fn set_effort(&mut self, argument: &str) -> Result<()> {
        if argument.is_empty() {
            self.screen.show(&self.effort.to_string())?;
            return Ok(());
        }
        let effort = argument.parse::<EffortLevel>();
        let effort = effort.map_err(|wrong| anyhow!("effort is {argument}, {wrong}"))?;
        if !effort.is_full() && self.model.effort_use().is_none() {
            bail!("effort is {effort}, expected 1 of a chat that was started without --effort");
        }
        self.effort = effort;
        Ok(())
    }

    fn system(&mut self, argument: &str) -> Result<()> {
        match argument {
            "" => {
                let text = self.conversation.system().unwrap_or("there is no system message");
                self.screen.show(text)?;
            }
            "-" => self.conversation.set_system(None),
            text => self.conversation.set_system(Some(text.to_owned())),
        }
        Ok(())
    }

    /// Answers the last message. Without an answer the message is forgotten.
    fn answer(&mut self) -> Result<()> {
        if self.answers.overflow == Overflow::Drop {
            self.make_room()?;
        }
        let result = self.try_answer();
        self.interrupt.release();
        self.screen.end_answer()?;
        match result {
            Ok(note) => {
                self.screen.note(&note);
                self.warn_of_the_context();
                Ok(())
            }
            Err(error) => {
                self.conversation.undo();
                Err(error)
            }
        }
    }

    /// Says that the context is nearly full.
    fn warn_of_the_context(&self) {
        let Some((stats, _)) = &self.last else { return };
        let (used, context) = (stats.prompt_tokens + stats.generated_tokens, self.model.context());
        if used * 10 >= context * 8 && self.answers.overflow == Overflow::Stop {
            self.screen.note(&format!(
                "{used} of the context's {context} tokens are used: /undo and /reset forget messages, \
                 --overflow drop forgets the oldest"
            ));
        }
    }

    /// Forgets the oldest messages until an eighth of the context, or --tokens, is free.
    fn make_room(&mut self) -> Result<()> {
        let context = self.model.context();
        let room = self.params.tokens.unwrap_or(context / 8).min(context / 2).max(1);
        let mut dropped = 0;
        loop {
            let prompt = self.template.prompt(&self.chat())?;
            let tokens = self.template.encode(prompt.segments())?.len();
            if tokens + room <= context || !self.conversation.drop_oldest() {
                break;
            }
            dropped += 1;
        }
        if dropped > 0 {
            self.screen.note(&format!("{dropped} of the oldest messages are forgotten"));
        }
        Ok(())
    }

    /// Goes on with the last answer.
    fn continue_answer(&mut self) -> Result<()> {
        let Some(mut answer) = self.conversation.take_answer() else {
            bail!("there is no answer to continue");
        };
        let mut chat = self.chat();
        chat.messages.push(answer.clone());
        (chat.add_generation_prompt, chat.continue_final_message) = (false, true);
        let result = self.stream(&chat, &ToolChoice::Auto);
        self.interrupt.release();
        self.screen.end_answer()?;
        let more = match result {
            Ok((message, note, stopped)) => {
                self.screen.note(&note);
                let text = message.text().unwrap_or_default();
                answer.content =
                    Some(Content::Text(answer.text().unwrap_or_default() + text.as_str()));
                answer.tool_calls = message.tool_calls;
                Ok(stopped)
            }
            Err(error) => Err(error),
        };
        let calls = answer.tool_calls.clone();
        self.conversation.push(answer);
        let stopped = more?;
        match !calls.is_empty() && self.run_calls(&calls, stopped)? {
            true => self.answer(),
            false => Ok(()),
        }
    }

    /// Prints the answer, and returns a line about it. While the answer calls tools, they are run
    /// and the model goes on.
    fn try_answer(&mut self) -> Result<String> {
        let mut choice = self.tools.choice().clone();
        for _ in 0..ROUNDS_MAX {
            let (note, stopped) = self.try_part(&choice)?;
            let calls = self.conversation.last_calls().to_vec();
            if calls.is_empty() {
                return Ok(note);
            }
            self.interrupt.release();
            self.screen.end_answer()?;
            self.screen.note(&note);
            if !self.run_calls(&calls, stopped)? {
                return Ok("[stopped]".to_owned());
            }
            if choice != ToolChoice::None {
                choice = ToolChoice::Auto;
            }
        }
        Ok(format!("[stopped after {ROUNDS_MAX} rounds of calls]"))
    }

    /// Prints an answer or a part of it that calls tools, and adds it to the messages. Returns a
    /// line about it, and whether it was stopped.
    fn try_part(&mut self, choice: &ToolChoice) -> Result<(String, bool)> {
        let (message, note, stopped) = self.stream(&self.chat(), choice)?;
        self.conversation.push(message);
        Ok((note, stopped))
    }

    /// The messages, tools and options.
    fn chat(&self) -> Chat {
        let mut chat = Chat::new(self.conversation.messages());
        chat.enable_thinking = self.thinking.enable;
        chat.reasoning_effort = self.thinking.effort.clone();
        chat.kwargs = self.thinking.kwargs.clone();
        chat.tools = self.tools.definitions().to_vec();
        chat
    }

    /// Prints what the model writes after a chat. Returns its message, a line about it, and whether
    /// it was stopped.
    fn stream(&mut self, chat: &Chat, choice: &ToolChoice) -> Result<(Message, String, bool)> {
        let prompt = match chat.tools.is_empty() {
            true => self.template.prompt(chat)?,
            false => self.template.prompt_with(chat, choice, true)?,
        };
        let mut sampling = self.params.sampling.sampling().clone();
        sampling.seed = sampling.seed.map(|seed| seed.wrapping_add(self.attempt));
        let mut options = GenerateOptions::default().sampling(sampling).effort(self.effort);
        options.max_tokens = self.params.tokens;
        options.stop.clone_from(&self.answers.stop);
        options = self.answers.constraint.apply(options)?;
        let stream = self.model.answer(&prompt, options);
        let too_long = matches!(&stream, Err(error) if error.kind() == ErrorKind::TooLong);
        let is_first = chat.messages.iter().filter(|message| message.role == "user").count() < 2;
        let mut stream = match (too_long, is_first) {
            (true, true) => stream.hint("--context N makes room if the model has it")?,
            (true, false) => stream.hint(
                "/undo or /reset forgets messages, --overflow drop the oldest; --context N makes room if the \
                 model has it",
            )?,
            (false, _) => stream?,
        };
        self.interrupt.cancels(stream.handle());
        let mut reading = Some(Progress::of_prompt(stream.handle()));
        for event in &mut stream {
            reading = None;
            self.screen.event(&event?)?;
        }
        let stats = stream.stats();
        let message = stream.message();
        self.totals.add(&stats);
        let reason = stream.finish_reason();
        self.stopped = reason == Some(FinishReason::Cancelled);
        drop(reading);
        let note = note(&stats, reason, stream.reasoning_tokens(), self.model.context());
        self.last = Some((stats, stream.reasoning_tokens()));
        Ok((message, note, reason == Some(FinishReason::Cancelled)))
    }

    /// Tokens and times of the last answer and of all.
    fn stats(&self) -> String {
        let Some((last, reasoning)) = &self.last else {
            return "there is no answer yet".to_owned();
        };
        let totals = &self.totals;
        let first = last.time_to_first_token.unwrap_or_default().as_secs_f64() * 1e3;
        let used = last.prompt_tokens + last.generated_tokens;
        format!(
            "last answer   {} prompt tokens, {} of them reused{}; first token after {first:.0} ms\n\
             \x20             {} tokens, {reasoning} of reasoning{}; seed {}\n\
             {:<14}{} prompt tokens, {} of them reused; {} tokens in {:.1} s\n\
             context       {used} of {} positions",
            last.prompt_tokens,
            last.cached_tokens,
            output::prompt_rate(last),
            last.generated_tokens,
            output::rate(last),
            last.seed,
            format!("{} answers", totals.answers),
            totals.prompt,
            totals.cached,
            totals.generated,
            totals.time.as_secs_f64(),
            self.model.context(),
        )
    }
}

impl Totals {
    fn add(&mut self, stats: &Stats) {
        self.answers += 1;
        self.prompt += stats.prompt_tokens;
        self.cached += stats.cached_tokens;
        self.generated += stats.generated_tokens;
        self.time += stats.time_to_first_token.unwrap_or_default() + stats.decode;
    }
}

/// A line about an answer.
fn note(stats: &Stats, reason: Option<FinishReason>, reasoning: usize, context: usize) -> String {
    let used = stats.prompt_tokens + stats.generated_tokens;
    let reason = match reason {
        Some(FinishReason::End | FinishReason::Stop) => String::new(),
        Some(FinishReason::Length) if used >= context => {
            format!("; the context of {context} tokens is full")
        }
        Some(FinishReason::Length) => "; cut at the limit of tokens".to_owned(),
        Some(_) | None => "; stopped".to_owned(),
    };
    let rate = output::rate(stats);
    let thought = if reasoning > 0 { format!(", {reasoning} of reasoning") } else { String::new() };
    format!(
        "[{} tokens{rate}{thought}; prompt {}, {} reused{reason}]",
        stats.generated_tokens, stats.prompt_tokens, stats.cached_tokens
    )
}

fn named(argument: &str) -> Result<&str> {
    match argument {
        "" => bail!("expected the name of a file"),
        file => Ok(file),
    }
}
