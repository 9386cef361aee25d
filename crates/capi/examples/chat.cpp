// An answer in a conversation, with handles that C++ closes and errors that are exceptions.
//
// chat [MODEL [DEVICE]]; the model "-" is the one within the library.
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "pelton.h"

namespace {

// Closes a handle by the function of its kind.
template <auto Close> struct Closer {
    template <typename T> void operator()(T *handle) const { Close(handle); }
};
template <typename T, auto Close> using Handle = std::unique_ptr<T, Closer<Close>>;

using Engine = Handle<pelton_engine, pelton_engine_close>;
using Model = Handle<pelton_model, pelton_model_close>;
using Options = Handle<pelton_options, pelton_options_free>;
using Request = Handle<pelton_request, pelton_request_free>;
using Stream = Handle<pelton_stream, pelton_stream_close>;

// Throws the error of a call.
void check(pelton_status status, pelton_error *error)
{
    if (status != PELTON_OK) {
        const std::string text = error ? pelton_error_text(error, nullptr) : "";
        pelton_error_free(error);
        throw std::runtime_error(text);
    }
}

// The handle that a call makes.
template <typename Owner, typename... Arguments, typename Make> Owner make(Make call, Arguments... arguments)
{
    typename Owner::pointer handle = nullptr;
    pelton_error *error = nullptr;
    check(call(arguments..., &handle, &error), error);
    return Owner(handle);
}

void set(const Request &request, std::string_view name, double value)
{
    pelton_error *error = nullptr;
    check(pelton_request_set_number(request.get(), name.data(), name.size(), value, &error), error);
}

void answer(std::string_view path, const std::string &device)
{
    pelton_error *error = nullptr;
    const auto options = make<Options>(pelton_options_new);
    if (!device.empty()) {
        check(pelton_options_set(options.get(), PELTON_LIT("device"), device.data(), device.size(), &error),
              error);
    }
    const auto engine = make<Engine>(pelton_engine_open, options.get());
    const auto model =
        make<Model>(pelton_model_load, engine.get(), path.data(), path.size(), static_cast<pelton_options *>(nullptr));
    const auto request = make<Request>(pelton_request_new);
    set(request, "temperature", 0);
    set(request, "max_tokens", 64);
    const std::string_view messages = R"([{"role": "user", "content": "What is 2 plus 3?"}])";
    check(pelton_request_set_messages(request.get(), messages.data(), messages.size(), &error), error);

    const auto stream = make<Stream>(pelton_request_start, request.get(), model.get());
    pelton_token token{};
    token.size = sizeof token;
    pelton_next next;
    while ((next = pelton_stream_next(stream.get(), -1, &token, &error)) == PELTON_NEXT_ITEM) {
        std::fwrite(token.text, 1, token.text_length, stdout);
    }
    if (next == PELTON_NEXT_ERROR) {
        check(pelton_error_code(error), error);
    }
    std::printf("\n");
}

} // namespace

int main(int argc, char **argv)
{
    const std::string path = argc > 1 ? argv[1] : "-";
    try {
        answer(path == "-" ? "" : path, argc > 2 ? argv[2] : "");
    } catch (const std::exception &error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
    return pelton_live_handles() == 0 ? 0 : 1;
}
