/*
 * request.c - one request to the judge, by a process of its own
 *
 *		request PORT PATH		0 admitted, 1 refused, 2 no proper answer
 *
 * A shell could do it too, but needs so much processor time for its start that
 * on a busy machine the demo would measure the shell.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int
main(int argc, char **argv)
{
	struct sockaddr_in judge = {.sin_family = AF_INET};
	char		text[512];
	int			length;
	int			status;
	int			fd = socket(AF_INET, SOCK_STREAM, 0);

	if (argc != 3)
		return 2;
	judge.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	judge.sin_port = htons(atoi(argv[1]));
	length = snprintf(text, sizeof text, "GET %s HTTP/1.0\r\n\r\n", argv[2]);
	if (connect(fd, (struct sockaddr *) &judge, sizeof judge) != 0 ||
		write(fd, text, length) != length)
		return 2;
	length = read(fd, text, sizeof text - 1);
	text[length > 0 ? length : 0] = '\0';
	if (sscanf(text, "HTTP/%*s %d", &status) != 1)
		return 2;
	return status == 200 ? 0 : status == 429 ? 1 : 2;
}
