//! A loaded model.

use pelton::{EmbedOptions, GenerateOptions, LogitRows, Prompt};
use pyo3::{
    IntoPyObjectExt,
    prelude::*,
    types::{PyDict, PyList, PyTuple},
};

use crate::{
    arguments::{Prompts, get, one_prompt, prompts, wrong},
    call::awaitable,
    chat::{self, ChatArguments},
    completion::Completion,
    embed,
    error::Failure,
    inbox::Wakes,
    options::request_options,
    process::Owned,
    request::{Request, run_all},
    rerank::{self, Wanted},
    score::{self, Pair},
    stream::{TokenStream, asynchronous},
    tokenizer::Tokenizer,
};

/// A loaded model. Any number of threads can share it: their requests run together.
#[pyclass(frozen, module = "pelton")]
pub(crate) struct Model {
    model: Owned<pelton::Model>,
}

impl Model {
    pub(crate) fn new(model: pelton::Model) -> Self {
        Self { model: Owned::new(model) }
    }

    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<&pelton::Model> {
        self.model.get().map_err(|failure| failure.raise(py))
    }

    fn options(
        &self,
        py: Python<'_>,
        function: &str,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<GenerateOptions> {
        request_options(function, keywords, self.get(py)?.sampling_defaults().sampling)
    }

    fn token_stream(
        &self,
        prompt: &Bound<'_, PyAny>,
        options: GenerateOptions,
    ) -> PyResult<TokenStream> {
        let py = prompt.py();
        let (model, prompt) = (self.get(py)?, one_prompt("prompt", prompt)?);
        let request = py.detach(|| Request::submit(model, prompt, options, Wakes::Each));
        Ok(TokenStream::new(request.map_err(|error| Failure::from(error).raise(py))?))
    }
}

#[pymethods]
impl Model {
    /// Generates the text after a prompt, or after each of a list of prompts, which run together.
    #[pyo3(signature = (prompt, **options))]
    fn generate<'py>(
        &self,
        prompt: &Bound<'py, PyAny>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = prompt.py();
        let prompts = prompts("prompt", prompt)?;
        let options = self.options(py, "generate", options)?;
        let model = self.get(py)?;
        let tokenizer = model.tokenizer().ok();
        let wanted = (options.logprobs.is_some(), options.prompt_logprobs.is_some());
        let mut completions = run_all(
            py,
            prompts.list.len(),
            |i| {
                let (prompt, options) = (prompts.list[i].clone(), options.clone());
                Ok(py.detach(|| Request::submit(model, prompt, options, Wakes::Last)))
            },
            |_, request, finished| {
                Completion::new(py, finished, &request.stats(), tokenizer, wanted)
            },
        )?;
        match (prompts.is_one, completions.pop()) {
            (true, Some(completion)) => completion.into_bound_py_any(py),
            (_, last) => Ok(PyList::new(py, completions.into_iter().chain(last))?.into_any()),
        }
    }

    /// Generates the text after a prompt, and returns its tokens as an iterator.
    #[pyo3(signature = (prompt, **options))]
    fn stream(
        &self,
        prompt: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<TokenStream> {
        self.token_stream(prompt, self.options(prompt.py(), "stream", options)?)
    }

    /// Generates the text after a prompt, and returns its tokens as an asynchronous iterator.
    #[pyo3(signature = (prompt, **options))]
    fn astream<'py>(
        &self,
        prompt: &Bound<'py, PyAny>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = prompt.py();
        let stream = self.token_stream(prompt, self.options(py, "astream", options)?)?;
        asynchronous(Bound::new(py, stream)?.as_any())
    }

    /// Answers a conversation: a dict of OpenAI's chat completions, or with `stream` an
    /// iterator over its chunks. `images` are the bytes or paths of pictures, which the last
    /// message of the user has before its text.
    #[pyo3(signature = (
        messages, tools = None, *, images = None, tool_choice = None, parallel_tool_calls = true,
        stream = false, enable_thinking = None, reasoning_effort = None, continue_final_message = false,
        template_kwargs = None, **options
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn chat<'py>(
        &self,
        messages: &Bound<'py, PyAny>,
        tools: Option<&Bound<'py, PyAny>>,
        images: Option<&Bound<'py, PyAny>>,
        tool_choice: Option<&Bound<'py, PyAny>>,
        parallel_tool_calls: bool,
        stream: bool,
        enable_thinking: Option<bool>,
        reasoning_effort: Option<String>,
        continue_final_message: bool,
        template_kwargs: Option<&Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = messages.py();
        let mut arguments = ChatArguments::new(messages, tools, tool_choice, template_kwargs)?;
        if let Some(images) = images {
            arguments.attach(py, images)?;
        }
        arguments.parallel = parallel_tool_calls;
        arguments.chat.enable_thinking = enable_thinking;
        arguments.chat.reasoning_effort = reasoning_effort;
        arguments.chat.continue_final_message = continue_final_message;
        arguments.chat.add_generation_prompt = !continue_final_message;
        let options = self.options(py, "chat", options)?;
        chat::chat(py, self.get(py)?, arguments, options, stream)
    }

    /// The prompt that a chat is rendered to.
    #[pyo3(signature = (messages, tools = None, *, enable_thinking = None))]
    fn render_chat(
        &self,
        messages: &Bound<'_, PyAny>,
        tools: Option<&Bound<'_, PyAny>>,
        enable_thinking: Option<bool>,
    ) -> PyResult<String> {
        let py = messages.py();
        let mut arguments = ChatArguments::new(messages, tools, None, None)?;
        arguments.chat.enable_thinking = enable_thinking;
        let prompt = arguments.prompt(self.get(py)?).map_err(|failure| failure.raise(py))?;
        Ok(prompt.text().to_owned())
    }

    /// The log-probability of a continuation after a context, and whether greedy decoding gives it.
    /// Lists of contexts and continuations give a list, and are run together.
    fn score<'py>(
        &self,
        context: &Bound<'py, PyAny>,
        continuation: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = context.py();
        let model = self.get(py)?;
        let mut contexts = prompts("context", context)?;
        let mut ends = prompts("continuation", continuation)?;
        // next to one prompt, an empty list is no list of prompts
        if contexts.is_one != ends.is_one {
            for prompts in [&mut contexts, &mut ends].into_iter().filter(|p| p.list.is_empty()) {
                *prompts = Prompts { list: vec![Prompt::Tokens(Vec::new())], is_one: true };
            }
        }
        if contexts.list.len() != ends.list.len() || contexts.is_one != ends.is_one {
            return Err(wrong("continuation", continuation, "as many as contexts"));
        }
        let pair = |(context, end): (Prompt, Prompt)| Pair::new(model, context, end);
        let pairs = py.detach(|| contexts.list.into_iter().zip(ends.list).map(pair).collect());
        let pairs: Vec<Pair> = Result::<_, Failure>::map_err(pairs, |failure| failure.raise(py))?;
        let mut scores = score::score(py, model, &pairs)?;
        match (contexts.is_one, scores.pop()) {
            (true, Some(score)) => score.into_bound_py_any(py),
            (_, last) => Ok(PyList::new(py, scores.into_iter().chain(last))?.into_any()),
        }
    }

    /// The logits `[tokens, vocab]` after each token of a prompt, or `[vocab]` after its last one.
    #[pyo3(signature = (prompt, *, last = false))]
    fn logits<'py>(&self, prompt: &Bound<'py, PyAny>, last: bool) -> PyResult<Bound<'py, PyAny>> {
        let py = prompt.py();
        let rows = if last { LogitRows::Last } else { LogitRows::Each };
        let prompt = one_prompt("prompt", prompt)?;
        score::logits(py, self.get(py)?, prompt, rows)?.into_bound_py_any(py)
    }

    /// The embeddings of texts.
    #[pyo3(signature = (texts, *, dimensions = None, normalize = true))]
    fn embed<'py>(
        &self,
        texts: &Bound<'py, PyAny>,
        dimensions: Option<usize>,
        normalize: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = texts.py();
        let mut options = EmbedOptions::default().normalize(normalize);
        options.dimensions = dimensions;
        embed::embed(py, self.get(py)?, prompts("texts", texts)?, options)
    }

    /// The documents by their relevance for a query, the most relevant first: dicts of `index` and
    /// `score`, at most `top_n` of them.
    #[pyo3(signature = (
        query, documents, *, top_n = None, return_documents = false, raw_scores = false
    ))]
    fn rerank<'py>(
        &self,
        query: &Bound<'py, PyAny>,
        documents: &Bound<'py, PyAny>,
        top_n: Option<&Bound<'py, PyAny>>,
        return_documents: bool,
        raw_scores: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        const TOP: &str = "an int from 1";
        let query_text = get("query", query, "a text")?;
        let texts = get("documents", documents, "a list of texts")?;
        let most = match top_n {
            None => usize::MAX,
            Some(count) => match get("top_n", count, TOP)? {
                0 => return Err(wrong("top_n", count, TOP)),
                most => most,
            },
        };
        let wanted = Wanted { most, texts: return_documents, raw: raw_scores };
        rerank::rerank(query.py(), self.get(query.py())?, query_text, texts, &wanted)
    }

    /// `generate`, to be awaited. The end of the task cancels the requests.
    #[pyo3(
        signature = (*arguments, **keywords),
        text_signature = "($self, prompt, **options)"
    )]
    fn agenerate<'py>(
        slf: &Bound<'py, Self>,
        arguments: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        awaitable(slf.as_any(), "generate", arguments, keywords)
    }

    /// `chat`, to be awaited.
    #[pyo3(
        signature = (*arguments, **keywords),
        text_signature = "($self, messages, tools=None, *, images=None, tool_choice=None, \
                          parallel_tool_calls=True, stream=False, enable_thinking=None, reasoning_effort=None, \
                          continue_final_message=False, template_kwargs=None, **options)"
    )]
    fn achat<'py>(
        slf: &Bound<'py, Self>,
        arguments: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        awaitable(slf.as_any(), "chat", arguments, keywords)
    }

    /// `score`, to be awaited.
    #[pyo3(
        signature = (*arguments, **keywords),
        text_signature = "($self, context, continuation)"
    )]
    fn ascore<'py>(
        slf: &Bound<'py, Self>,
        arguments: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        awaitable(slf.as_any(), "score", arguments, keywords)
    }

    /// `logits`, to be awaited.
    #[pyo3(
        signature = (*arguments, **keywords),
        text_signature = "($self, prompt, *, last=False)"
    )]
    fn alogits<'py>(
        slf: &Bound<'py, Self>,
        arguments: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        awaitable(slf.as_any(), "logits", arguments, keywords)
    }

    /// `embed`, to be awaited.
    #[pyo3(
        signature = (*arguments, **keywords),
        text_signature = "($self, texts, *, dimensions=None, normalize=True)"
    )]
    fn aembed<'py>(
        slf: &Bound<'py, Self>,
        arguments: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        awaitable(slf.as_any(), "embed", arguments, keywords)
    }

    /// `rerank`, to be awaited.
    #[pyo3(
        signature = (*arguments, **keywords),
        text_signature = "($self, query, documents, *, top_n=None, return_documents=False, \
                          raw_scores=False)"
    )]
    fn arerank<'py>(
        slf: &Bound<'py, Self>,
        arguments: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        awaitable(slf.as_any(), "rerank", arguments, keywords)
    }

    /// The tokenizer.
    #[getter]
    fn tokenizer(&self, py: Python<'_>) -> PyResult<Tokenizer> {
        Tokenizer::new(self.get(py)?).map_err(|failure| failure.raise(py))
    }

    /// The model's name in its file, or that of the file.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.get(py)?.summary().name)
    }

    /// Tokens that a prompt and its answer can have.
    #[getter]
    fn context(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.get(py)?.context())
    }

    /// The device, its threads, and why it is not a GPU where that was not chosen.
    #[getter]
    fn device(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.get(py)?.summary().device)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let summary = self.get(py)?.summary();
        Ok(format!(
            "Model({:?}, context={}, device={:?})",
            summary.name, summary.context, summary.device
        ))
    }
}
