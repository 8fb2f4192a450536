# bash completion for pgpacer(1): verbs, options, and the sources that are in the database

# The sources, asked for with the connection options typed so far; nothing if that
# takes more than a second or two, and no names that would need quoting.
_pgpacer_sources() {
	local -a connection=()
	local i
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-h | -p | -U | -d) connection+=("${COMP_WORDS[i]}" "${COMP_WORDS[++i]}") ;;
		--) break ;;
		esac
	done
	PGCONNECT_TIMEOUT=2 "${COMP_WORDS[0]}" list --csv -q "${connection[@]}" 2>/dev/null </dev/null |
		sed -n '1d; s/^\([A-Za-z0-9_.:@%+-]*\),.*/\1/p'
}

_pgpacer() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb='' options i
	local -i nargs=0
	COMPREPLY=()

	# the verb, and how many arguments stand between it and here
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-h | -p | -U | -d) ((++i)) ;;
		=) ((++i)) ;; # bash splits --option=value there
		-*) ;;
		*) if [[ -z $verb ]]; then verb=${COMP_WORDS[i]}; else nargs+=1; fi ;;
		esac
	done

	# behind the source of run it is another command's turn
	if [[ $verb == run && $nargs -ge 1 ]]; then
		if ((nargs == 1)); then
			mapfile -t COMPREPLY < <(compgen -c -- "$word")
		else
			compopt -o default 2>/dev/null
		fi
		return
	fi
	case $before in
	-h | -p | -U | -d | =) return ;;
	esac

	if [[ $word == -* ]]; then
		options='--host= --port= --username= --dbname= --quiet --help'
		case $verb in
		run | wait | book)
			options+=' --max-wait= --try --deadline= --permits= --key= --verbose --database-wait='
			[[ $verb == book ]] || options+=' --no-confirm'
			[[ $verb != run ]] || options+=' --pause-on='
			;;
		create) options+=' --burst= --max-waiting= --max-wait= --quota= --remembered= --if-not-exists' ;;
		alter) options+=' --interval= --burst= --max-waiting= --max-wait= --quota= --rename=' ;;
		drop) options+=' --if-exists' ;;
		list | status) options+=' --csv --json' ;;
		top) options+=' --every= --count=' ;;
		'') options+=' --version' ;;
		esac
		mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
		[[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null
	elif [[ -z $verb ]]; then
		mapfile -t COMPREPLY < <(compgen -W 'run wait book confirm release pause resume create alter drop list status top' -- "$word")
	elif [[ $nargs -eq 0 && $verb != create && $verb != top ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_pgpacer_sources)" -- "$word")
	fi
}
complete -F _pgpacer pgpacer
