import { type Call, type Command, UsageError } from './command.ts';

type Commands = readonly Command[];

/** Prints a script that completes commands and options. `commands` is the table that the script comes from. */
export async function printCompletion(call: Call, commands: Commands, common: object): Promise<void> {
  const [shell = ''] = call.args;
  const shells: Record<string, typeof bash> = { bash, zsh, fish };
  const script = shells[shell]?.(commands, Object.keys(common));
  if (script === undefined)
    throw new UsageError(`There is completion for bash, zsh and fish, not for ${shell}`);
  call.print({ script }, [script]);
}

/** The words that may follow each beginning of a command. */
function followers(commands: Commands): Map<string, Set<string>> {
  const following = new Map<string, Set<string>>();
  for (const { name } of commands) {
    const words = name.split(' ');
    for (const [index, word] of words.entries()) {
      const before = words.slice(0, index).join(' ');
      following.set(before, (following.get(before) ?? new Set()).add(word));
    }
  }
  return following;
}

function optionsOf({ options = {} }: Command, common: readonly string[]): string {
  return [...Object.keys(options), ...common].map((name) => `--${name}`).join(' ');
}

function bash(commands: Commands, common: readonly string[]): string {
  const options = commands.map((each) => `    '${each.name} '*) words='${optionsOf(each, common)}' ;;`);
  const words = [...followers(commands)].map(([before, after]) => {
    return `    '${before === '' ? '' : `${before} `}') words='${[...after].join(' ')}' ;;`;
  });
  return `_rtm() {
  local typed='' words='' index
  for ((index = 1; index < COMP_CWORD; index++)); do typed+="\${COMP_WORDS[index]} "; done
  case "$typed" in
${[...options, ...words].join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _rtm rtm`;
}

function zsh(commands: Commands, common: readonly string[]): string {
  return `autoload -U +X compinit bashcompinit && compinit && bashcompinit\n${bash(commands, common)}`;
}

function fish(commands: Commands, common: readonly string[]): string {
  const lines: string[] = [];
  for (const [before, after] of followers(commands)) {
    const condition = before === '' ? '__fish_use_subcommand' : `__fish_seen_subcommand_from ${before}`;
    lines.push(`complete -c rtm -n '${condition}' -a '${[...after].join(' ')}'`);
  }
  const options = new Set([...common, ...commands.flatMap((each) => Object.keys(each.options ?? {}))]);
  return [...lines, ...[...options].map((option) => `complete -c rtm -l ${option}`)].join('\n');
}
