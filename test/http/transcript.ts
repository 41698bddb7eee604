import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { type Answer, type Api, problemIn } from '../../harness/http/api.ts';
import { DEFAULTS } from '../../harness/subscriptions.ts';
import { readSettings } from '../../src/subscribing/subscription_settings.ts';

/** A request and its expected answer: one line of a transcript. */
export interface Exchange {
  line: string;
  user: string;
  method: string;
  path: string;
  headers: Record<string, string>;
  body: string | undefined;
  status: number;
  answerHeaders: Record<string, string>;
  /** Problems: the code, more members as name=value, and the detail in quotes, each but the code optional. */
  answer: string | undefined;
  /** The answer takes at least this long. */
  afterMs: number;
}

interface Section {
  title: string;
  exchanges: Exchange[];
}

const URLS = { url: 'https://app.example.com/widgets/1', callback: 'https://app.example.com/events' };
/** The default settings of a subscriber, without those that the lines of transcripts name. */
const { max_events, timeout, ...defaults } = readSettings({}, DEFAULTS);
/** The members of `GET /subscriptions` that are the same for every subscriber with default settings and no losses. */
const UNSET = [
  JSON.stringify(defaults).slice(1, -1),
  '"signing":null',
  '"paused_at":null,"paused_by":null,"dead_letters":{"batches":0,"events":0},"dropped":null',
  '"bytes":{"queued":"…","dead_letters":0}',
].join(',');
/** The members of `GET /topics` that are the same for every topic without delayed events. */
const PLAIN_TOPIC = '"delayed":0,"dropped":null';
const HEADERS = /((?: \[[A-Z][\w-]*: [^\]]*\])*)/.source;
const LINE = new RegExp(`^(\\S+) ([A-Z]+) (\\S+)${HEADERS}(?: (.*?))? → (\\d{3})${HEADERS}(?: (.*))?$`);

/**
 * Reads a transcript. `== title` begins a section, an indented line continues the one above, and `  # …` is a comment.
 * Any other line is `user METHOD path [Header: value] body → status [Header: value] answer (after n ms)`; the user `-`
 * sends no credentials.
 */
export function readTranscript(file: string): Section[] {
  const sections: Section[] = [];
  const text = readFileSync(file, 'utf8').replaceAll(/\n\s+(?=\S)/g, (gap) =>
    /\n.*\n/s.test(gap) ? gap : ' ',
  );
  for (const each of text.split('\n')) {
    const line = each.replace(/(^|\s+)#(\s.*)?$/, '');
    if (line.startsWith('== ')) sections.push({ title: line.slice(3), exchanges: [] });
    else if (line !== '') sections.at(-1)?.exchanges.push(readLine(line));
  }
  return sections;
}

function readLine(line: string): Exchange {
  const [, afterMs = '0'] = / \(after (\d+) ms\)$/.exec(line) ?? [];
  const parts = LINE.exec(line.replace(/ \(after \d+ ms\)$/, ''));
  if (!parts) throw new Error(`this is no line of a transcript: ${line}`);
  const [, user = '', method = '', path = '', headers, body, status, answerHeaders, answer] = parts;
  return {
    ...{ line, user, method, path, headers: readHeaders(headers), body },
    ...{
      status: Number(status),
      answerHeaders: readHeaders(answerHeaders),
      answer,
      afterMs: Number(afterMs),
    },
  };
}

function readHeaders(text = ''): Record<string, string> {
  return Object.fromEntries(
    [...text.matchAll(/\[([^:]+): ([^\]]*)\]/g)].map(([, name = '', value = '']) => [name, value]),
  );
}

/**
 * Makes the call and checks the answer, which it resolves with. `<name>` is the token of a client, who is made when it
 * is first named; `<url>` is the URL of an event, `<65×a>` is 65 times an a, `<unset>` what a subscriber has unless it
 * asks for it, `<plain_topic>` what a topic has without delayed events. In what is expected, `…` stands for anything.
 */
export async function check(api: Api, exchange: Exchange): Promise<Answer> {
  const { user, method, status, afterMs } = exchange;
  const [path, body, answer] = await Promise.all(
    [exchange.path, exchange.body, exchange.answer].map((text) => text && fill(api, text)),
  );
  const { headers } = exchange;
  const got = await api.call(method, path ?? '', {
    ...{ headers },
    ...(user !== '-' && { as: user }),
    ...(body !== undefined && { body }),
  });
  if (method === 'POST' && path === '/api_tokens' && got.status === 201) api.enter(JSON.parse(got.text));
  try {
    assert.equal(got.status, status);
    for (const [name, expected] of Object.entries(exchange.answerHeaders)) {
      const [value, found] = [await fill(api, expected), got.headers[name.toLowerCase()]?.toString() ?? ''];
      assert.match(found, pattern(value), `${name} is ${found}, and not ${value}`);
    }
    if (status >= 400 && method !== 'HEAD') checkProblem(got, answer ?? '');
    else checkBody(got.text, answer);
    // Node's timers can fire a little early.
    assert.ok(got.tookMs > afterMs - 5, `it took ${got.tookMs} ms`);
  } catch (error) {
    throw new Error(`${exchange.line}\nanswered ${got.status} ${got.text}\n${(error as Error).message}`);
  }
  return got;
}

async function fill(api: Api, text: string): Promise<string> {
  let filled = text.replaceAll(/<(url|callback)>/g, (_, name: keyof typeof URLS) => URLS[name]);
  filled = filled.replaceAll('<unset>', UNSET).replaceAll('<plain_topic>', PLAIN_TOPIC);
  filled = filled.replaceAll(/<(\d+)×([^>]+)>/g, (_, n: string, what: string) => what.repeat(Number(n)));
  for (const [mark, name = ''] of filled.matchAll(/<([a-z]\w*)>/g))
    filled = filled.replaceAll(mark, await api.token(name));
  return filled;
}

function checkProblem(got: Answer, expected: string): void {
  const [, code, members = '', , detail] = /^(\w+)((?: \w+=\S+)*)( (".*"))?$/.exec(expected) ?? [];
  const problem: Record<string, unknown> = { ...problemIn(got) };
  assert.equal(problem.code, code);
  for (const member of members.split(' ').filter(Boolean)) {
    const [name = '', value] = member.split('=');
    assert.equal(String(problem[name]), value, name);
  }
  if (detail !== undefined) assert.match(String(problem.detail), pattern(JSON.parse(detail)));
}

function checkBody(text: string, expected: string | undefined): void {
  if (expected === undefined) assert.equal(text, '');
  else if (/^[[{]/.test(expected)) {
    const differs = difference(JSON.parse(text), JSON.parse(expected));
    assert.ok(differs === undefined, differs);
  } else assert.match(text, pattern(expected));
}

/** Returns where a value first differs from what is expected, and how. Returns undefined if it does not. */
export function difference(value: unknown, expected: unknown, place = 'the answer'): string | undefined {
  const differs = `${place} is ${JSON.stringify(value)}, and not ${JSON.stringify(expected)}`;
  if (typeof expected === 'string' && expected.includes('…'))
    return pattern(expected).test(String(value)) ? undefined : differs;
  if (typeof expected !== 'object' || expected === null) return value === expected ? undefined : differs;
  if (typeof value !== 'object' || value === null || Array.isArray(value) !== Array.isArray(expected))
    return differs;
  const [found, wanted] = [value as Record<string, unknown>, expected as Record<string, unknown>];
  const surplus = Object.keys(found).find((name) => !(name in wanted));
  if (surplus !== undefined)
    return `${place} has ${surplus}, which neither the line nor its <unset> or <plain_topic> (transcript.ts) has`;
  for (const [name, each] of Object.entries(wanted)) {
    if (!(name in found)) return `${place} has no ${name}`;
    const inside = difference(found[name], each, `${name} of ${place}`);
    if (inside !== undefined) return inside;
  }
  return undefined;
}

function pattern(text: string): RegExp {
  return new RegExp(`^${text.split('…').map(RegExp.escape).join('.*')}$`, 's');
}
