//! `pelton chat`: a conversation with a model.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::{Result, bail};
use clap::Parser;
use pelton::{Error, LoadOptions, Model, chat::ChatTemplate, graph::OutputKind};

use super::{prompt_or_stdin, text_of};
use crate::{
    chat::{
        Answers, Conversation, Input, Overflow, Params, Screen, Session, Start, Thinking, ToolArgs,
        Tools,
    },
    constrain::ConstraintArgs,
    hub,
    interrupt::Interrupt,
    loader::Loader,
    model::LoadArgs,
    names::BUILT_IN,
    output::{Hint, WithHint},
    pictures::{self, ImageArgs},
    speculate::SpeculateArgs,
    templates,
    thinking::ThinkArgs,
};

#[derive(clap::Args)]
#[command(
    after_help = "Without MODEL the built-in model answers. /help in a chat lists its commands. Without a \
                  terminal\neach line of standard input is a message, and standard output has the answers \
                  and what commands\nshow. Ctrl-C stops an answer."
)]
pub(crate) struct Args {
    /// A model: a file, a directory, or a name such as qwen3:0.6b; by default the built-in model
    #[arg(default_value = BUILT_IN)]
    model: String,
    /// One message: its answer is printed, and the chat ends; - for standard input
    question: Option<String>,
    /// The message, in place of the argument; it may begin with -
    #[arg(
        short,
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        conflicts_with = "question"
    )]
    prompt: Option<String>,
    #[command(flatten)]
    pub(super) images: ImageArgs,
    /// The system message
    #[arg(long, value_name = "TEXT")]
    pub(super) system: Option<String>,
    /// Begin with the messages of a JSON file, as /save writes it
    #[arg(long, value_name = "FILE")]
    load: Option<String>,
    /// Chat template: chatml, llama3, gemma, mistral, phi or a Jinja file
    #[arg(long = "chat-template", value_name = "NAME")]
    pub(super) template: Option<String>,
    /// Read the system message from a file
    #[arg(long, value_name = "FILE", conflicts_with = "system")]
    pub(super) system_file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) thinking: ThinkArgs,
    /// End answers before this string; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub(super) stop: Vec<String>,
    /// Where the messages fill the context: stop, or drop the oldest ones
    #[arg(long, value_enum, default_value = "stop")]
    overflow: Overflow,
    /// Neither read nor write the file of earlier inputs
    #[arg(long)]
    no_history: bool,
    #[command(flatten)]
    tools: ToolArgs,
    #[command(flatten)]
    pub(super) constraint: ConstraintArgs,
    #[command(flatten)]
    pub(super) speculate: SpeculateArgs,
    #[command(flatten)]
    pub(super) params: Params,
    #[command(flatten)]
    pub(super) options: LoadArgs,
}

impl Args {
    /// The arguments of `pelton chat MODEL`.
    pub(super) fn of(model: &str) -> Result<Self> {
        Ok(Alone::try_parse_from(["pelton chat", "--", model])?.args)
    }
}

/// The arguments on their own.
#[derive(Parser)]
struct Alone {
    #[command(flatten)]
    args: Args,
}

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let source = args.template.as_deref().map(templates::source).transpose()?;
    let mut conversation = match &args.load {
        Some(file) => Conversation::load(file)?,
        None => Conversation::default(),
    };
    if let Some(text) = &args.system {
        conversation.set_system(Some(prompt_or_stdin(text)?));
    }
    if let Some(path) = &args.system_file {
        conversation.set_system(Some(text_of(path)?));
    }
    let tools = Tools::new(&args.tools)?;
    // a file that is missing is found before minutes of loading
    args.constraint.constraint()?;
    let images = args.images.read()?;
    let interrupt = Interrupt::install();
    let model = Loader::new(&args.options)
        .load_and_say(&args.model, args.speculate.apply(LoadOptions::default().fit_context())?)
        .map_err(|error| match args.question.is_none() && !hub::is_model(&args.model) {
            true => {
                let hint = format!(
                    "`pelton chat MODEL {:?}` sends a message; {BUILT_IN} is a MODEL",
                    args.model
                );
                Hint { error, hint }.into()
            }
            false => error,
        })?;
    args.params.sampling.fill(&model);
    let template = template(&model, source.as_deref(), !tools.is_empty())?;
    pictures::check(&images, Some(&template))?;
    let screen = Screen::new();
    let question = match (&args.question, &args.prompt) {
        (Some(text), _) => Some(prompt_or_stdin(text)?),
        (None, text) => text.clone(),
    };
    let input = Input::new(screen.is_styled(), !args.no_history)?;
    if input.is_terminal() && question.is_none() {
        screen.note("/help lists commands, Ctrl-D ends");
    }
    let kwargs = args.thinking.kwargs();
    let ThinkArgs { think, reasoning_effort, .. } = args.thinking;
    let thinking = Thinking { enable: think, effort: reasoning_effort, kwargs };
    let mut session = Session::new(Start {
        model: &model,
        template: &template,
        conversation,
        images,
        params: args.params,
        thinking,
        tools,
        effort: args.options.effort_level(),
        answers: Answers { stop: args.stop, constraint: args.constraint, overflow: args.overflow },
        input,
        screen,
        interrupt,
    });
    session.check_thinking()?;
    if args.load.is_some() && question.is_none() {
        session.show_loaded();
    }
    match question {
        Some(text) => session.once(text),
        None => session.run(),
    }
}

/// The chat template: of a file, or else the model's. Tools that it does not write are explained in
/// a message.
fn template(model: &Model, source: Option<&str>, tools: bool) -> Result<Arc<ChatTemplate>> {
    let template = match source {
        Some(source) => Arc::new(model.chat_template_from(source)?),
        None => match model.chat_template() {
            Err(_) if model.plan().output != OutputKind::Logits => bail!(
                "the model generates no text, expected one that does; `pelton embed` and `pelton \
                 rerank` take others"
            ),
            Err(error @ Error::NoChatTemplate { .. }) => Err(error).hint(
                "--chat-template NAME gives one; `pelton run` continues a text without one",
            )?,
            template => Arc::clone(template?),
        },
    };
    match tools {
        true => {
            let again = model.chat_template_from(template.template().source())?;
            Ok(Arc::new(again.explaining_tools()))
        }
        false => Ok(template),
    }
}
