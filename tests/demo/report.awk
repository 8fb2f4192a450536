# report.awk - one run as the judge's log saw it (lines of one run: seconds.milliseconds, status, /RUN/PROCESS)
#
#   mode=row       a line of the table; title, failed given
#   mode=timeline  a row per process, step ms per column, from the first request on;
#                  and one of the database, if it was away from down to up

function ms(stamp,   part) {
	split(stamp, part, ".")
	return (part[1] - base) * 1000 + part[2]
}

BEGIN { columns = 70 }

NR == 1 { base = int($1); first = last = ms($1); smallest = -1 }

{
	now = ms($1)
	if (NR > 1 && (smallest < 0 || now - last < smallest))
		smallest = now - last
	last = now
	requests++
	if ($2 != 200)
		refused++

	split($3, part, "/")
	column = int((now - first) / step)
	if (column < columns) {
		if ($2 == 200)
			cell[part[3], column] = "|"
		else if (!((part[3], column) in cell))
			cell[part[3], column] = "x"
	}
	if (part[3] > processes)
		processes = part[3]
}

END {
	if (mode == "row") {
		printf "%-32s %8d %8d %9d %8.1f %10d ms\n", title, requests, refused, failed, (last - first) / 1000, smallest
		exit
	}
	for (p = 1; p <= processes; p++) {
		row = ""
		for (c = 0; c < columns && c <= int((last - first) / step); c++)
			row = row ((p, c) in cell ? cell[p, c] : " ")
		sub(/ +$/, "", row)
		print "  process " p "  " row
	}
	if (down) {
		row = ""
		for (c = 0; c < columns && c <= int((last - first) / step); c++)
			row = row ((c + 1) * step > ms(down) - first && c * step < ms(up) - first ? " " : "=")
		print "  database   " row
	}
}
