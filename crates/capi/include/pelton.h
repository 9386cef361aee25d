/* Pelton: inference of language and speech models. docs/c.md describes this interface with examples.
 *
 * Made from the sources of the crate pelton-capi by cbindgen; changes belong there.
 *
 * Results     A function returns PELTON_OK or the kind of its error. With `error` not NULL it also stores an
 *             object there, which the caller closes by pelton_error_free, or NULL if it has succeeded. Other
 *             places for results are written on success alone.
 * Handles     A handle is no address. One that is NULL, that was closed, or that is of another kind is an
 *             error, never undefined. All handles are closed by the function of their kind.
 * Texts       A text is a pointer and its bytes, UTF-8. PELTON_LIT("...") writes both. NULL with the
 *             length 0 is the empty text.
 * Arrays      Functions that fill an array write its number of elements to `count`. With NULL and the
 *             capacity 0 that is all they do; a capacity that is too small is PELTON_BUFFER.
 * Structs     The caller sets `size` of a struct that is filled to sizeof of it. Later versions add fields
 *             at the end.
 * Pointers    Pointers other than handles are aligned, and point to as much memory as the function reads or
 *             writes. No other thread writes to it during the call.
 * Threads     Any thread may use any handle. A parameter `const` may be used by several calls at the same
 *             time. Of the calls with a parameter that is not const, one runs at a time: a second one is
 *             PELTON_BUSY or waits. Memory that a handle owns must not be read while another thread
 *             closes it.
 * Callbacks   A callback runs on any thread, unless its type says otherwise, and may not call the library:
 *             such a call is PELTON_CALLBACK. No exception may leave it. A caller holds no lock that the
 *             callback takes while it sets or closes.
 * Processes   A process that was forked may not use the handles of its parent.
 */


#ifndef PELTON_H
#define PELTON_H



#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A literal text and its length, as two arguments. */
#define PELTON_LIT(text) (text), (sizeof(text) - 1)


/*
 No events.
 */
#define PELTON_LOG_OFF 0

/*
 Failed passes.
 */
#define PELTON_LOG_ERROR 1

/*
 Things that the user should know.
 */
#define PELTON_LOG_WARN 2

/*
 Loads.
 */
#define PELTON_LOG_INFO 3

/*
 Starts, cancellations and preemptions of requests.
 */
#define PELTON_LOG_DEBUG 4

/*
 Passes and evictions.
 */
#define PELTON_LOG_TRACE 5

/*
 Special tokens that are written in the text count as such. Without it they are text.
 */
#define PELTON_TOKENIZE_SPECIAL 1

/*
 Encode as prompts are: special tokens count, and those that belong before and
 after a text are added.
 */
#define PELTON_TOKENIZE_PROMPT 2

/*
 Control tokens become text when ids are decoded.
 */
#define PELTON_DETOKENIZE_SPECIAL 1

/*
 The id that no token has.
 */
#define PELTON_NO_TOKEN 4294967295

/*
 The result of a call: 0, or the kind of the error. Codes keep their numbers in all versions.
 */
enum pelton_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /*
     The call has succeeded.
     */
    PELTON_OK = 0,
    /*
     A pointer is NULL that must not be.
     */
    PELTON_NULL = 1,
    /*
     A handle is not live: it was closed, or it is another kind of handle.
     */
    PELTON_CLOSED = 2,
    /*
     The caller's buffer is too small. Nothing was written to it, and the count
     says how much is needed.
     */
    PELTON_BUFFER = 3,
    /*
     A call with this handle has panicked before. It can only be closed.
     */
    PELTON_POISONED = 4,
    /*
     The library has panicked, which is a defect of it. The call's handles are poisoned.
     */
    PELTON_PANIC = 5,
    /*
     A callback has called the library.
     */
    PELTON_CALLBACK = 6,
    /*
     A file or a folder is not there.
     */
    PELTON_NOT_FOUND = 16,
    /*
     A file could not be read or written for another reason.
     */
    PELTON_IO = 17,
    /*
     A file of a model is broken, incomplete or contradicts another one.
     */
    PELTON_INVALID_MODEL = 18,
    /*
     The model, the device or this build cannot do it.
     */
    PELTON_UNSUPPORTED = 19,
    /*
     An option, a prompt, a message or a grammar is not valid.
     */
    PELTON_INVALID = 20,
    /*
     The prompt or a text is longer than the context.
     */
    PELTON_TOO_LONG = 21,
    /*
     There is not enough memory.
     */
    PELTON_OUT_OF_MEMORY = 22,
    /*
     The queue is full, or another thread has the handle. The same call may succeed later.
     */
    PELTON_BUSY = 23,
    /*
     The deadline has passed.
     */
    PELTON_DEADLINE = 24,
    /*
     The request was cancelled.
     */
    PELTON_CANCELLED = 25,
    /*
     The device could not be opened, or does not work.
     */
    PELTON_DEVICE = 26,
    /*
     The model does not answer any more, or its results are not numbers.
     */
    PELTON_INTERNAL = 27,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum pelton_status pelton_status;
#else
typedef int32_t pelton_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/*
 The outcome of a wait.
 */
enum pelton_next
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /*
     The call has failed: the error says why.
     */
    PELTON_NEXT_ERROR = -1,
    /*
     There are no more items.
     */
    PELTON_NEXT_END = 0,
    /*
     The item was written.
     */
    PELTON_NEXT_ITEM = 1,
    /*
     None came in the time.
     */
    PELTON_NEXT_TIMEOUT = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum pelton_next pelton_next;
#else
typedef int32_t pelton_next;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/*
 A decoder of a text token by token: one token is not always whole characters. It goes on without
 its model. One thread at a time uses it.
 */
typedef struct pelton_decoder pelton_decoder;

/*
 A device. Any thread can load models on it, several at the same time.
 */
typedef struct pelton_engine pelton_engine;

/*
 Why a call has failed. The caller closes it with `pelton_error_free`.
 */
typedef struct pelton_error pelton_error;

/*
 A grammar that generated text keeps to. It does not change, and any thread can use it.
 */
typedef struct pelton_grammar pelton_grammar;

/*
 A loaded model. Any thread can use it, several at the same time.
 */
typedef struct pelton_model pelton_model;

/*
 Options by name: of an engine, a load, embeddings or a transcription. A call reads those that it
 is given; later changes do not concern it.
 */
typedef struct pelton_options pelton_options;

/*
 A prompt with its options. It can be started many times, on any model, and changed in between.
 */
typedef struct pelton_request pelton_request;

/*
 One sequence of a model, run by hand. One thread at a time uses it.
 */
typedef struct pelton_session pelton_session;

/*
 A running request. It keeps its model loaded. One thread at a time reads it; any
 thread can cancel it.
 */
typedef struct pelton_stream pelton_stream;

/*
 A text of the library. The caller closes it with `pelton_text_free`.
 */
typedef struct pelton_text pelton_text;

/*
 A running transcription. It keeps its model loaded until it ends. One thread at a time reads it;
 any thread can cancel it.
 */
typedef struct pelton_transcription pelton_transcription;

/*
 A function that receives a line of the log: UTF-8 with a NUL after it, which lives until it
 returns. It runs on any thread, one at a time, and may not call the library.
 */
typedef void (*pelton_log_fn)(uint32_t level,
                              const char *text,
                              size_t length,
                              void *user_data);

/*
 A tensor of a model file. The caller sets `size`. Names and data live as long as the model's
 handle.
 */
typedef struct pelton_tensor {
    /*
     `sizeof(pelton_tensor)`, set by the caller.
     */
    uint32_t size;
    /*
     Dimensions.
     */
    uint32_t rank;
    /*
     The name: UTF-8 without a NUL after it.
     */
    const char *name;
    /*
     Bytes of the name.
     */
    size_t name_length;
    /*
     The type of the elements, such as `Q4_K`: UTF-8 without a NUL after it.
     */
    const char *dtype;
    /*
     Bytes of the type's name.
     */
    size_t dtype_length;
    /*
     The lengths of the dimensions, the innermost first; 1 beyond the rank.
     */
    uint64_t shape[4];
    /*
     The elements as the file has them.
     */
    const void *data;
    /*
     Bytes of the elements.
     */
    size_t byte_count;
} pelton_tensor;

/*
 A token that could have been drawn.
 */
typedef struct pelton_logprob {
    /*
     Its id.
     */
    uint32_t id;
    /*
     Its natural log-probability.
     */
    float logprob;
} pelton_logprob;

/*
 The next piece of an answer. The caller sets `size`. Texts live until the next call with the
 stream; a NUL follows them.
 */
typedef struct pelton_token {
    /*
     `sizeof(pelton_token)`, set by the caller.
     */
    uint32_t size;
    /*
     The token's id; `PELTON_NO_TOKEN` for text that became certain with the end.
     */
    uint32_t id;
    /*
     The text that is certain since the token was drawn: whole characters, possibly none.
     */
    const char *text;
    /*
     Bytes of the text.
     */
    size_t text_length;
    /*
     In the answer to a conversation: the text of the model's reasoning. `text`
     has the answer alone.
     */
    const char *reasoning;
    /*
     Bytes of the reasoning.
     */
    size_t reasoning_length;
    /*
     The natural log-probability; NaN if the request does not ask for it.
     */
    float logprob;
    /*
     Elements of `top`.
     */
    uint32_t top_count;
    /*
     The likeliest tokens, in descending order.
     */
    const struct pelton_logprob *top;
} pelton_token;

/*
 A function that is called when something can be read: it wakes the reader and does nothing else.
 It runs on a thread of the library.
 */
typedef void (*pelton_ready_fn)(void *user_data);

/*
 A function that receives each token; it returns whether the text goes on. It runs on the thread
 that called, and may call the library. The token's texts live until it returns.
 */
typedef bool (*pelton_token_fn)(const struct pelton_token *token,
                                void *user_data);

/*
 A text of the caller.
 */
typedef struct pelton_string {
    /*
     UTF-8.
     */
    const char *data;
    /*
     Bytes of it.
     */
    size_t length;
} pelton_string;

/*
 A piece of speech. The caller sets `size`. The text lives until the next call with the
 transcription; a NUL follows it.
 */
typedef struct pelton_segment {
    /*
     `sizeof(pelton_segment)`, set by the caller.
     */
    uint32_t size;
    /*
     Its index, from 0.
     */
    uint32_t index;
    /*
     Seconds from the start of the audio.
     */
    double start;
    /*
     Seconds from the start of the audio.
     */
    double end;
    /*
     The text, with the space before it.
     */
    const char *text;
    /*
     Bytes of the text.
     */
    size_t text_length;
    /*
     The probability that there is no speech; 0 for a word of live audio.
     */
    double no_speech;
} pelton_segment;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The code of an error; `PELTON_CLOSED` or `PELTON_NULL` if it is none.
 */
pelton_status pelton_error_code(const struct pelton_error *error);

/*
 The text of an error, which ends with NUL and lives until `pelton_error_free`. NULL if it is
 none. `length` may be NULL.
 */
const char *pelton_error_text(const struct pelton_error *error,
                              size_t *length);

/*
 Closes an error.
 */
pelton_status pelton_error_free(struct pelton_error *error);

/*
 The version of the library, such as `0.1.0`: a text that ends with NUL and is never freed.
 */
const char *pelton_version(void);

/*
 Handles of all kinds that were opened and not closed, errors and texts included. It is for
 tests.
 */
uint64_t pelton_live_handles(void);

/*
 Sets the function that receives the log, of all engines, up to a level `PELTON_LOG_*`. NULL
 unsets it; it does not run any more when this call returns that has unset it.
 */
pelton_status pelton_log_set(uint32_t level,
                             pelton_log_fn callback,
                             void *user_data,
                             struct pelton_error **error);

/*
 The bytes of a text, UTF-8, which live until `pelton_text_free`. A NUL follows them. NULL if the
 text is not live. `length` may be NULL.
 */
const char *pelton_text_data(const struct pelton_text *text,
                             size_t *length);

/*
 Closes a text.
 */
pelton_status pelton_text_free(struct pelton_text *text);

/*
 Makes an empty list of options.
 */
pelton_status pelton_options_new(struct pelton_options **options,
                                 struct pelton_error **error);

/*
 Sets an option to a text. The option is checked by the call that reads it.
 */
pelton_status pelton_options_set(struct pelton_options *options,
                                 const char *name,
                                 size_t name_length,
                                 const char *value,
                                 size_t value_length,
                                 struct pelton_error **error);

/*
 Sets an option to a number; 1 is yes and 0 no.
 */
pelton_status pelton_options_set_number(struct pelton_options *options,
                                        const char *name,
                                        size_t name_length,
                                        double value,
                                        struct pelton_error **error);

/*
 Closes a list of options.
 */
pelton_status pelton_options_free(struct pelton_options *options);

/*
 Opens a device. `options` may be NULL: then it is a hardware GPU if there is one, or else the
 CPU.
 */
pelton_status pelton_engine_open(const struct pelton_options *options,
                                 struct pelton_engine **engine,
                                 struct pelton_error **error);

/*
 Closes an engine. Its models go on.
 */
pelton_status pelton_engine_close(struct pelton_engine *engine);

/*
 Loads a model: a file or a directory, or with the path of length 0 the one within the library.
 The path `built-in-vision` is the one that sees. `options` may be NULL.

 A file of Whisper becomes a model that transcribes. The option `speech` chooses that kind within
 the library.
 */
pelton_status pelton_model_load(const struct pelton_engine *engine,
                                const char *path,
                                size_t path_length,
                                const struct pelton_options *options,
                                struct pelton_model **model,
                                struct pelton_error **error);

/*
 Makes another handle of a model. The model is unloaded when all its handles, streams and
 transcriptions are closed.
 */
pelton_status pelton_model_share(const struct pelton_model *model,
                                 struct pelton_model **shared,
                                 struct pelton_error **error);

/*
 Closes a handle of a model. The last one waits for the pass that runs.
 */
pelton_status pelton_model_close(struct pelton_model *model);

/*
 Reads a number of a model by its name, such as `context`, or by its key in the model file, such
 as `llama.block_count`.
 */
pelton_status pelton_model_integer(const struct pelton_model *model,
                                   const char *name,
                                   size_t name_length,
                                   uint64_t *value,
                                   struct pelton_error **error);

/*
 Reads a text of a model by its name, such as `kind` (`text`, `embedding`, `scores` or `speech`),
 or any value by its key in the model file.
 */
pelton_status pelton_model_text(const struct pelton_model *model,
                                const char *name,
                                size_t name_length,
                                struct pelton_text **value,
                                struct pelton_error **error);

/*
 Reads a tensor of the model file by its index, below the model's number `tensors`.
 */
pelton_status pelton_model_tensor(const struct pelton_model *model,
                                  size_t index,
                                  struct pelton_tensor *tensor,
                                  struct pelton_error **error);

/*
 Encodes a text to ids. `flags` are 0 or a sum of `PELTON_TOKENIZE_*`. Only the count is written
 if `ids` is NULL and `capacity` 0.
 */
pelton_status pelton_tokenize(const struct pelton_model *model,
                              const char *data,
                              size_t length,
                              uint32_t flags,
                              uint32_t *ids,
                              size_t capacity,
                              size_t *count,
                              struct pelton_error **error);

/*
 Decodes ids to a text. `flags` are 0 or `PELTON_DETOKENIZE_SPECIAL`. Bytes that are no
 characters become U+FFFD.
 */
pelton_status pelton_detokenize(const struct pelton_model *model,
                                const uint32_t *ids,
                                size_t count,
                                uint32_t flags,
                                struct pelton_text **text,
                                struct pelton_error **error);

/*
 Makes a decoder of one text. `flags` as those of `pelton_detokenize`.
 */
pelton_status pelton_decoder_new(const struct pelton_model *model,
                                 uint32_t flags,
                                 struct pelton_decoder **decoder,
                                 struct pelton_error **error);

/*
 Adds a token, and returns the characters that are complete now, possibly none. `PELTON_NO_TOKEN`
 ends the text and returns its rest; the next token begins another one.
 */
pelton_status pelton_decoder_push(struct pelton_decoder *decoder,
                                  uint32_t id,
                                  struct pelton_text **text,
                                  struct pelton_error **error);

/*
 Closes a decoder.
 */
pelton_status pelton_decoder_free(struct pelton_decoder *decoder);

/*
 Compiles a grammar for a model. `kind` is `json_schema`, `json_object` (the source is not
 read), `regex`, `lark` or `gbnf`. A grammar that does not compile is an error that names
 its keyword or place.
 */
pelton_status pelton_grammar_new(const struct pelton_model *model,
                                 const char *kind,
                                 size_t kind_length,
                                 const char *source,
                                 size_t source_length,
                                 struct pelton_grammar **grammar,
                                 struct pelton_error **error);

/*
 Closes a grammar. Requests that have it keep it.
 */
pelton_status pelton_grammar_free(struct pelton_grammar *grammar);

/*
 Renders a conversation by the model's chat template. The messages are a list in JSON, or an
 object with `messages`, `tools` and further keys, as `pelton_request_set_messages` takes.
 */
pelton_status pelton_chat_render(const struct pelton_model *model,
                                 const char *messages,
                                 size_t messages_length,
                                 struct pelton_text **prompt,
                                 struct pelton_error **error);

/*
 Makes a request without a prompt.
 */
pelton_status pelton_request_new(struct pelton_request **request,
                                 struct pelton_error **error);

/*
 Sets a text to continue.
 */
pelton_status pelton_request_set_prompt(struct pelton_request *request,
                                        const char *prompt,
                                        size_t prompt_length,
                                        struct pelton_error **error);

/*
 Sets tokens to continue, which are used as they are.
 */
pelton_status pelton_request_set_tokens(struct pelton_request *request,
                                        const uint32_t *ids,
                                        size_t count,
                                        struct pelton_error **error);

/*
 Sets a conversation to answer. It is JSON: a list of messages as in OpenAI's API, or an object
 with the keys `messages`, `tools`, `tool_choice`, `parallel_tool_calls`, `documents`,
 `add_generation_prompt`, `continue_final_message`, `enable_thinking`, `reasoning_effort` and
 `chat_template_kwargs`.
 */
pelton_status pelton_request_set_messages(struct pelton_request *request,
                                          const char *messages,
                                          size_t messages_length,
                                          struct pelton_error **error);

/*
 Puts a picture before the text of the last message of the conversation, which is the user's.
 `file` has the bytes of a file: PNG, JPEG, WebP, GIF or BMP. Pictures come in the order of the
 calls, and the next conversation begins without any.
 */
pelton_status pelton_request_add_image(struct pelton_request *request,
                                       const uint8_t *file,
                                       size_t file_length,
                                       struct pelton_error **error);

/*
 Sets an option to a text, such as `stop`. docs/c.md lists the options.
 */
pelton_status pelton_request_set(struct pelton_request *request,
                                 const char *name,
                                 size_t name_length,
                                 const char *value,
                                 size_t value_length,
                                 struct pelton_error **error);

/*
 Sets an option to a number, such as `max_tokens` or `temperature`; 1 is yes and 0 no.
 */
pelton_status pelton_request_set_number(struct pelton_request *request,
                                        const char *name,
                                        size_t name_length,
                                        double value,
                                        struct pelton_error **error);

/*
 Sets the grammar that the text keeps to; NULL for none.
 */
pelton_status pelton_request_set_grammar(struct pelton_request *request,
                                         const struct pelton_grammar *grammar,
                                         struct pelton_error **error);

/*
 Closes a request. Its streams go on.
 */
pelton_status pelton_request_free(struct pelton_request *request);

/*
 Starts a request on a model.
 */
pelton_status pelton_request_start(const struct pelton_request *request,
                                   const struct pelton_model *model,
                                   struct pelton_stream **stream,
                                   struct pelton_error **error);

/*
 Waits for the next token at most `timeout_ms` milliseconds: 0 does not wait, and a negative time
 is without end. After the end, and after an error, it is `PELTON_NEXT_END`.
 */
pelton_next pelton_stream_next(struct pelton_stream *stream,
                               int64_t timeout_ms,
                               struct pelton_token *token,
                               struct pelton_error **error);

/*
 Cancels the request. Its stream ends soon with the finish reason `cancelled`.
 */
pelton_status pelton_stream_cancel(const struct pelton_stream *stream,
                                   struct pelton_error **error);

/*
 Sets a function that is called when a token or the end can be read; NULL unsets it. It runs on a
 thread of the library, and at once on this one if there is something to read. It may not call
 the library. It does not run any more when this call returns that has unset it.
 */
pelton_status pelton_stream_on_ready(const struct pelton_stream *stream,
                                     pelton_ready_fn callback,
                                     void *user_data,
                                     struct pelton_error **error);

/*
 Reads a size, a time or a speed of the request so far. One that is not known yet is NaN.
 */
pelton_status pelton_stream_number(const struct pelton_stream *stream,
                                   const char *name,
                                   size_t name_length,
                                   double *value,
                                   struct pelton_error **error);

/*
 Reads a text of the tokens that were read so far. `text` is the answer, and `message` the JSON
 of it for the conversation. `prompt` is the JSON of the log-probabilities that the request asks
 for. `finish_reason` is empty before the end, then `end`, `stop`, `length` or `cancelled`.
 `seed` gives the same text again.
 */
pelton_status pelton_stream_text(const struct pelton_stream *stream,
                                 const char *name,
                                 size_t name_length,
                                 struct pelton_text **value,
                                 struct pelton_error **error);

/*
 Closes a stream, and cancels its request. A thread that waits for it gets the end.
 */
pelton_status pelton_stream_close(struct pelton_stream *stream);

/*
 Runs a request to its end, and passes each token to a function. If the function returns false,
 the request is cancelled, which is no error.
 */
pelton_status pelton_generate(const struct pelton_model *model,
                              const struct pelton_request *request,
                              pelton_token_fn callback,
                              void *user_data,
                              struct pelton_error **error);

/*
 Embeds texts: `[texts, dimensions]` values, or with the pooling `none` a vector for each token.
 The texts run at the same time, and with those of other calls. Only the count is written if
 `values` is NULL and `capacity` 0. `options` may be NULL.
 */
pelton_status pelton_embed(const struct pelton_model *model,
                           const struct pelton_string *texts,
                           size_t text_count,
                           const struct pelton_options *options,
                           float *values,
                           size_t capacity,
                           size_t *value_count,
                           struct pelton_error **error);

/*
 Scores documents by their relevance for a query, in the order of the documents: probabilities,
 or with the option `raw` logits. The documents run at the same time, and with those of other
 calls. Only the count is written if `scores` is NULL and `capacity` 0. `options` may be NULL.
 */
pelton_status pelton_rerank(const struct pelton_model *model,
                            const char *query,
                            size_t query_length,
                            const struct pelton_string *documents,
                            size_t document_count,
                            const struct pelton_options *options,
                            float *scores,
                            size_t capacity,
                            size_t *score_count,
                            struct pelton_error **error);

/*
 Makes a session of a model, whose handle is closed if it succeeds. The model may have no other
 handles, streams or calls. Decoders of it go on.
 */
pelton_status pelton_session_new(struct pelton_model *model,
                                 struct pelton_session **session,
                                 struct pelton_error **error);

/*
 Runs tokens at the next positions.
 */
pelton_status pelton_session_feed(struct pelton_session *session,
                                  const uint32_t *ids,
                                  size_t count,
                                  struct pelton_error **error);

/*
 Copies the logits after the last token that was fed, one for each token of the vocabulary. Only
 the count is written if `logits` is NULL and `capacity` 0.
 */
pelton_status pelton_session_logits(const struct pelton_session *session,
                                    float *logits,
                                    size_t capacity,
                                    size_t *count,
                                    struct pelton_error **error);

/*
 Runs a token and then `capacity - 1` more, each the likeliest after the one before. Writes all
 `capacity` tokens that were sampled; the last one is not run.
 */
pelton_status pelton_session_chain(struct pelton_session *session,
                                   uint32_t id,
                                   uint32_t *ids,
                                   size_t capacity,
                                   size_t *count,
                                   struct pelton_error **error);

/*
 Reads the number of positions that were run.
 */
pelton_status pelton_session_position(const struct pelton_session *session,
                                      size_t *position,
                                      struct pelton_error **error);

/*
 Shortens the sequence to its first `positions`; with 0 another text begins. It is empty
 afterwards if the model no longer has the state that the next token needs:
 `pelton_session_position` tells.
 */
pelton_status pelton_session_truncate(struct pelton_session *session,
                                      size_t positions,
                                      struct pelton_error **error);

/*
 Runs tokens at the next positions `passes` times over, and returns the times of the steps as
 JSON. The sequence stays as long as it was.
 */
pelton_status pelton_session_profile(struct pelton_session *session,
                                     const uint32_t *ids,
                                     size_t count,
                                     uint32_t passes,
                                     struct pelton_text **profile,
                                     struct pelton_error **error);

/*
 Closes a session.
 */
pelton_status pelton_session_close(struct pelton_session *session);

/*
 Transcribes a file of audio. `options` may be NULL.
 */
pelton_status pelton_transcribe_file(const struct pelton_model *model,
                                     const char *path,
                                     size_t path_length,
                                     const struct pelton_options *options,
                                     struct pelton_transcription **transcription,
                                     struct pelton_error **error);

/*
 Transcribes samples of one channel at 16,000 samples a second, in [-1, 1]. They are copied.
 `options` may be NULL.
 */
pelton_status pelton_transcribe_samples(const struct pelton_model *model,
                                        const float *samples,
                                        size_t count,
                                        const struct pelton_options *options,
                                        struct pelton_transcription **transcription,
                                        struct pelton_error **error);

/*
 Waits for the next segment, as `pelton_stream_next` does for tokens.
 */
pelton_next pelton_transcription_next(struct pelton_transcription *transcription,
                                      int64_t timeout_ms,
                                      struct pelton_segment *segment,
                                      struct pelton_error **error);

/*
 Cancels the transcription. Its next read fails with `PELTON_CANCELLED`, after the
 segments that there are.
 */
pelton_status pelton_transcription_cancel(const struct pelton_transcription *transcription,
                                          struct pelton_error **error);

/*
 Sets a function that is called when a segment or the end can be read, as
 `pelton_stream_on_ready` does.
 */
pelton_status pelton_transcription_on_ready(const struct pelton_transcription *transcription,
                                            pelton_ready_fn callback,
                                            void *user_data,
                                            struct pelton_error **error);

/*
 Reads the whole result after the end: `text`, `language` (its code), or a file in the format
 `txt`, `srt`, `vtt`, `tsv`, `json`, `csv` or `lrc`. At any time `pending` is the newest text of
 live audio after its words, which may still change.
 */
pelton_status pelton_transcription_text(const struct pelton_transcription *transcription,
                                        const char *name,
                                        size_t name_length,
                                        struct pelton_text **value,
                                        struct pelton_error **error);

/*
 Closes a transcription, and cancels it. Waits for the pass that runs.
 */
pelton_status pelton_transcription_close(struct pelton_transcription *transcription);

/*
 Starts the transcription of live audio, which `pelton_transcription_push` adds. Its segments are
 words: a word comes once two transcripts in succession agree on it, and then stays. The model
 must know the times of words. Several live transcriptions can share it: each has it while it
 computes. `options` may be NULL.
 */
pelton_status pelton_transcribe_live(const struct pelton_model *model,
                                     const struct pelton_options *options,
                                     struct pelton_transcription **transcription,
                                     struct pelton_error **error);

/*
 Adds samples of one channel at 16,000 samples a second, in [-1, 1], to a live transcription.
 They are copied, and wait until the model has time; the call does not wait.
 */
pelton_status pelton_transcription_push(const struct pelton_transcription *transcription,
                                        const float *samples,
                                        size_t count,
                                        struct pelton_error **error);

/*
 Ends the audio of a live transcription. The words that are left follow, and then the end.
 */
pelton_status pelton_transcription_finish(const struct pelton_transcription *transcription,
                                          struct pelton_error **error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PELTON_H */
