// Calls a handler of XLA's foreign function interface: an exception that leaves it becomes text.
#include <cstring>
#include <exception>

static void say(char* text, size_t room, const char* what) {
  std::strncpy(text, what, room - 1);
  text[room - 1] = 0;
}

// `text` is empty after a call that no exception left.
extern "C" void* ga_call_handler(void* (*handler)(void*), void* frame, char* text, size_t room) {
  text[0] = 0;
  try {
    return handler(frame);
  } catch (const std::exception& e) {
    say(text, room, *e.what() ? e.what() : "a std::exception without a message");
  } catch (...) {
    say(text, room, "an exception that is no std::exception");
  }
  return nullptr;
}
