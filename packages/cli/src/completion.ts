import { type Call, type Command, UsageError } from './command.ts';

type Commands = readonly Command[];

/** Prints a script by which a shell completes commands and their options. */
export async function printCompletion(call: Call, commands: Commands, common: object): Promise<void> {
  const [shell = ''] = call.args;
  const write = new Map(Object.entries({ bash, zsh, fish })).get(shell);
  if (!write) throw new UsageError(`There is completion for bash, zsh and fish, not for ${shell}`);
  const script = write(commands, Object.keys(common));
  call.print({ script }, [script]);
}

/**
 * Returns, for each beginning of a command, the words that may follow it. For example, `add` and `list` may follow
 * `token `.
 */
function followers(commands: Commands): Map<string, string> {
  const following = new Map<string, Set<string>>();
  for (const { name } of commands) {
    let typed = '';
    for (const word of name.split(' ')) {
      following.set(typed, (following.get(typed) ?? new Set()).add(word));
      typed += `${word} `;
    }
  }
  return new Map([...following].map(([typed, words]) => [typed, [...words].join(' ')]));
}

function optionsOf({ options = {} }: Command, common: readonly string[]): string {
  return [...Object.keys(options), ...common].map((name) => `--${name}`).join(' ');
}

/**
 * Returns the branches of a shell's `case` statement, one for each text that the user may have typed so far. For
 * example, the branch for `token` offers `add` and `list`. `set` returns the shell command that offers these words:
 * `words='add list'` in bash.
 */
function cases(commands: Commands, common: readonly string[], set: (words: string) => string): string {
  const options = commands.map((each) => `    '${each.name} '*) ${set(optionsOf(each, common))} ;;`);
  const words = [...followers(commands)].map(([typed, after]) => `    '${typed}') ${set(after)} ;;`);
  return [...options, ...words].join('\n');
}

function bash(commands: Commands, common: readonly string[]): string {
  return `_rtm() {
  local typed='' words='' index
  for ((index = 1; index < COMP_CWORD; index++)); do typed+="\${COMP_WORDS[index]} "; done
  case "$typed" in
${cases(commands, common, (words) => `words='${words}'`)}
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _rtm rtm`;
}

function zsh(commands: Commands, common: readonly string[]): string {
  // The script must not set `words`: zsh keeps the typed words in this variable.
  return `#compdef rtm
_rtm() {
  local typed='' word
  local -a completions
  for word in "\${(@)words[2,CURRENT-1]}"; do typed+="$word "; done
  case "$typed" in
${cases(commands, common, (words) => `completions=(${words})`)}
  esac
  compadd -- $completions || _files
}
if ! whence compdef > /dev/null; then autoload -Uz compinit && compinit; fi
compdef _rtm rtm`;
}

function fish(commands: Commands, common: readonly string[]): string {
  const words = [...followers(commands)].map(([typed, after]) => {
    return `complete -c rtm -f -n '__rtm_typed = "${typed}"' -a '${after}'`;
  });
  const options = commands.map((each) => {
    return `complete -c rtm -n '__rtm_typed begins "${each.name} "' -a '${optionsOf(each, common)}'`;
  });
  return `function __rtm_typed
  set -l words (commandline -opc)
  set -l typed (string join ' ' -- $words[2..] '')
  if test $argv[1] = begins
    string match -q -- "$argv[2]*" "$typed"
  else
    test "$typed" = "$argv[2]"
  end
end
${[...words, ...options].join('\n')}`;
}
