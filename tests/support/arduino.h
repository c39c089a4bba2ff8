/* What sketches of the guide take from Arduino and from their own programs. */
#include <stdint.h>
#include <stddef.h>
template <class T> void measure(T *x) { *x = 0; }
void delay(int);
void load(void *to, size_t size);
void store(const void *from, size_t size);
struct String {
    const char *c_str();
    void trim();
};
struct Stream {
    void begin(int);
    int available();
    String readStringUntil(char end);
    void println(const char *text);
    void write(uint8_t byte);
} Serial;
