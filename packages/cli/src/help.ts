import type { Command, Option } from './command.ts';
import { COMMANDS, COMMON_OPTIONS } from './commands.ts';

/**
 * Returns the usage lines of a command, one for each way to call it. Each line ends with those options of the command
 * that `args` does not mention. Options that all commands have in common are left out.
 */
export function forms({ name, args = [''], options = {} }: Command): string[] {
  const own = Object.entries(options).map(([option, { value }]) => `--${option}${value ? ` ${value}` : ''}`);
  const others = own.filter((option) => !args.some((form) => form.includes(option.split(' ')[0] ?? option)));
  return args.map((form) => {
    return ['rtm', name, form, ...others.map((option) => `[${option}]`)].filter(Boolean).join(' ');
  });
}

/** Returns the usage lines and the help of these commands, and the common options. */
export function overview(commands: readonly Command[] = COMMANDS): string {
  const blocks = commands.map((command) => [...forms(command), `    ${command.help}`].join('\n'));
  return `Usage:\n${blocks.join('\n')}\n${optionLines('Common options:', COMMON_OPTIONS)}`;
}

/** Returns the usage of all commands as JSON, for programs. */
export function overviewJson(): string {
  return `${JSON.stringify(COMMANDS.map((command) => ({ forms: forms(command), help: command.help })))}\n`;
}

export function commandHelp(command: Command): string {
  const usage = forms(command).map((form) => `${form} [options]`);
  const { options = {} } = command;
  const own = command.options ? optionLines('Options:', options) : '';
  // A common option is left out if the command has its own option of the same name, as `rtm verify` has --secret.
  const common = Object.entries(COMMON_OPTIONS).filter(([name]) => !Object.hasOwn(options, name));
  const rest = optionLines('Common options:', Object.fromEntries(common));
  return `Usage:\n${usage.join('\n')}\n    ${command.help}\n${own}${rest}`;
}

function optionLines(title: string, options: Readonly<Record<string, Option>>): string {
  const names = Object.entries(options).map(([name, { short, value }]) => {
    return `${short ? `-${short}, ` : ''}--${name}${value ? ` ${value}` : ''}`;
  });
  const width = Math.max(...names.map(({ length }) => length)) + 2;
  const lines = Object.values(options).map(({ help }, n) => `    ${names[n]?.padEnd(width)}${help}`);
  return `${title}\n${lines.join('\n')}\n`;
}
