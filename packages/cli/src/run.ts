import { parseArgs } from 'node:util';
import { Bus } from './bus.ts';
import { type Call, type Command, type Streams, type Target, UsageError } from './command.ts';
import { COMMANDS, COMMON_OPTIONS } from './commands.ts';
import { commandHelp, forms, overview, overviewJson } from './help.ts';
import { sayIfRepeated } from './patience.ts';
import { useProxy } from './proxy.ts';
import { jsonOf, textOf } from './tables.ts';
import { targetOf } from './target.ts';
import { adviceOnEnd, causeOf, withAdvice } from './unanswered.ts';
import { nearest, unknownCommand } from './unknown_command.ts';

const USAGE = 1;
const FAILED = 2;
/** Time within which a call of the bus must succeed. It is short, because a user waits for it. */
const CALL_TIMEOUT_MS = 10_000;

/** Matches a token that the bus has made, followed by its secret. Such a pair must go into no path and no message. */
const WITH_SECRET = /^[\w-]+--\w{20}:/;

interface Surroundings extends Streams {
  env: NodeJS.ProcessEnv;
  folder: string;
  interruption: Call['interruption'];
}

/** Runs the command that the arguments name. Resolves with the exit status: 0, 1 (wrong usage) or 2 (failed). */
export async function run(argv: readonly string[], surroundings: Surroundings): Promise<number> {
  const { stdout, stderr } = surroundings;
  const [first, ...rest] = argv;
  if (first === 'help' && /^[^-]/.test(rest[0] ?? '')) return run([...rest, '--help'], surroundings);
  const command = COMMANDS.find(({ name }) => name.split(' ').every((word, index) => argv[index] === word));
  if (!command) {
    const group = groupOf(argv);
    if (group.length > 0) stdout.write(overview(group));
    if (group.length > 0) return 0;
    const isAsked = /^(-h|--help|help)$/.test(argv[0] ?? '');
    if (isAsked) stdout.write(argv.includes('--json') ? overviewJson() : overview());
    else stderr.write(argv.length === 0 ? overview() : `bad_usage: ${unknownCommand(argv)}\n`);
    return isAsked ? 0 : USAGE;
  }
  let isVerbose = false;
  let call: Call | undefined;
  try {
    const { values, positionals } = parse(command, argv.slice(command.name.split(' ').length));
    if (values.help) stdout.write(commandHelp(command));
    if (values.help) return 0;
    isVerbose = values.verbose === true;
    if (!fits(command, positionals.length)) {
      throw new UsageError(`Wrong number of arguments: ${forms(command).join(', or ')}`);
    }
    if (positionals.includes(''))
      throw new UsageError('An argument is empty; is its variable set in the environment?');
    if ([...positionals, values.subscriber, values.client].some((each) => WITH_SECRET.test(String(each))))
      throw new UsageError('Name a client by its token alone, without its secret: only --token takes both');
    call = callOf(positionals, values, surroundings);
    await command.run(call);
    return 0;
  } catch (error) {
    const advice = call && adviceOnEnd(error, call.target);
    const text = message(error);
    stderr.write(`${textOf(advice === undefined ? text : withAdvice(text, advice))}\n`);
    if (error instanceof UsageError) {
      stderr.write(`rtm ${command.name} --help says more.\n`);
      return USAGE;
    }
    if (isVerbose && error instanceof Error)
      for (const line of error.stack?.split('\n') ?? []) stderr.write(`${textOf(line)}\n`);
    return FAILED;
  }
}

/**
 * Returns the commands of a group, such as all that begin with `token`, if the arguments ask for help on this group:
 * `rtm token --help`. Otherwise returns no commands.
 */
function groupOf([first, second = '']: readonly string[]): Command[] {
  if (!/^(-h|--help)$/.test(second)) return [];
  return COMMANDS.filter(({ name }) => name.startsWith(`${first} `));
}

function parse(command: Command, args: readonly string[]) {
  const options: Record<string, { type: 'string' | 'boolean'; short?: string }> = {};
  for (const [name, { short, value }] of Object.entries({ ...COMMON_OPTIONS, ...command.options }))
    options[name] = { type: value ? 'string' : 'boolean', ...(short && { short }) };
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true });
  } catch (error) {
    throw new UsageError(reasonOf((error as Error).message, Object.keys(options)));
  }
}

/**
 * Returns a line that says what is wrong with the command line, and which option the user may have meant. `message` is
 * Node's error text.
 */
function reasonOf(message: string, names: readonly string[]): string {
  const [, fault] = /^Option '.*' argument (missing|is ambiguous)/.exec(message) ?? [];
  // For an ambiguous short option, Node's text begins with the short name. The long name is only in its last line.
  const [name] = /--[\w-]+/.exec(message) ?? [];
  if (fault === 'missing') return `${name} needs a value`;
  if (fault !== undefined) return `${name} needs a value; if it begins with a dash, write ${name}=-…`;
  const [, given] = /^Unknown option '([^']+)'/.exec(message) ?? [];
  if (given === undefined) return message.replaceAll('\n', ' ');
  const near = nearest(
    given,
    names.map((name) => `--${name}`),
  );
  return `There is no option ${given}${near === undefined ? '' : `; did you mean ${near}?`}`;
}

/** Returns true if one of the ways to call the command takes as many arguments as were given. */
function fits({ args = [''] }: Command, given: number): boolean {
  return args.some((form) => {
    const words = form.replace(/\[?--\S+( [^[\s]\S*)?/g, '').match(/\S+/g) ?? [];
    const needed = words.filter((word) => !word.startsWith('['));
    const max = words.some((word) => word.includes('...')) ? Number.POSITIVE_INFINITY : words.length;
    return given >= needed.length && given <= max;
  });
}

function callOf(args: string[], options: Call['options'], surroundings: Surroundings): Call {
  const { env, folder, interruption, stdin, stdout, stderr } = surroundings;
  const text = (name: string) => options[name] as string | undefined;
  const note = (line: string) => void stderr.write(`${line}\n`);
  let at: Target | undefined;
  const target = () => {
    if (at) return at;
    at = targetOf({ bus: text('bus'), token: text('token'), secret: text('secret'), env, folder });
    // Plain http is used only for a bus on this machine, which needs no proxy. For such a bus, `useProxy` would only
    // add an error if HTTPS_PROXY is not the URL of a proxy.
    if (at.url.startsWith('https:')) useProxy(env);
    return at;
  };
  return {
    args,
    options,
    interruption,
    streams: { stdin, stdout, stderr },
    target,
    connect({ timeoutMs = CALL_TIMEOUT_MS, isQuiet = false } = {}) {
      const { url, token, secret } = target();
      const bus = new Bus({ url, token, ...(secret && { secret }), timeoutMs });
      if (!isQuiet) sayIfRepeated({ bus, url, timeoutMs }, note);
      return bus;
    },
    print(value, lines) {
      if (options.json) {
        if (value !== undefined) stdout.write(`${jsonOf(value)}\n`);
      } else for (const line of lines) stdout.write(`${line}\n`);
    },
    note,
  };
}

/**
 * Returns the code and the message of an error as one text. If the message begins with the code, as errors of Node's
 * file system do, the code is not added again.
 */
function message(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code = error.name } = error as { code?: string };
  const cause = error.cause instanceof Error ? error.cause.message : '';
  const text = cause === '' ? error.message : error.message.replace(cause, () => causeOf(error).message);
  return text.startsWith(`${code}: `) ? text : `${code}: ${text}`;
}
