/* Runs a command and writes the most anonymous memory that it had, in bytes, to a file:
 *   peak FILE COMMAND [ARGUMENT...]
 * Looks every half millisecond; exits as the command does, or with 99. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* RssAnon of a status file in bytes; 0 once the process has ended. */
static unsigned long long anonymous(int fd)
{
    char text[8192];
    const ssize_t n = pread(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    const char *const at = strstr(text, "RssAnon:");
    return at ? strtoull(at + 8, NULL, 10) * 1024 : 0;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 99;
    const pid_t child = fork();
    if (child == 0) {
        (void)execv(argv[2], argv + 2);
        _exit(99);
    }
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)child);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    unsigned long long most = 0;
    int status = 0;
    if (child < 0 || fd < 0)
        return 99;
    while (waitpid(child, &status, WNOHANG) == 0) {
        const unsigned long long now = anonymous(fd);
        most = now > most ? now : most;
        (void)nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    }
    (void)close(fd);
    FILE *const out = fopen(argv[1], "w");
    if (!out || fprintf(out, "%llu\n", most) < 0 || fclose(out) != 0)
        return 99;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}
