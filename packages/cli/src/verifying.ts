import { buffer } from 'node:stream/consumers';
import { createReceiver } from '@routemaster/receiver';
import { type Call, Failure, readGiven, textOption, UsageError } from './command.ts';

/** Checks the signature of a delivery, as a receiver would. Prints that the delivery is genuine, or throws Failure. */
export async function verify(call: Call): Promise<void> {
  const [secret, headersFile, bodyFile] = ['secret', 'headers', 'body'].map((name) => textOption(call, name));
  if (secret === undefined || headersFile === undefined || bodyFile === undefined) {
    throw new UsageError('--secret, --headers and --body are needed');
  }
  refuseMalformed(secret);
  const headers = headersOf((await readGiven(headersFile)).toString());
  const body = bodyFile === '-' ? await buffer(call.streams.stdin) : await readGiven(bodyFile);
  const refusal = await refusalOf(secret, headers, body);
  if (refusal === undefined) return call.print({ genuine: true }, ['the delivery is genuine']);
  const isOld = (await refusalOf(secret, headers, body, Number.POSITIVE_INFINITY)) === undefined;
  throw new Failure(
    'not_genuine',
    isOld ? `the signature fits, but ${refusal}` : refusal + doubtAbout(secret),
  );
}

/**
 * Throws UsageError if the text cannot be a signing secret. It throws no Failure, because a Failure says that the
 * delivery is forged.
 */
function refuseMalformed(signingSecret: string): void {
  try {
    createReceiver({ signingSecret, on: {} });
  } catch (error) {
    throw new UsageError(`--secret: ${(error as Error).message}`);
  }
}

/**
 * Returns a remark if a secret lacks its prefix, and otherwise an empty text. A missing prefix is no error, because the
 * signature can be checked without the prefix.
 */
function doubtAbout(secret: string): string {
  if (/^wh(sec|pk)_/.test(secret)) return '';
  return '; a signing secret begins with whsec_ or whpk_, and this one does not';
}

async function refusalOf(signingSecret: string, headers: Headers, body: Buffer, toleranceSeconds?: number) {
  const tolerance = toleranceSeconds === undefined ? {} : { toleranceSeconds };
  const receiver = createReceiver({ signingSecret, on: {}, onRefused: () => {}, ...tolerance });
  const request = new Request('http://localhost/', { method: 'POST', headers, body: new Uint8Array(body) });
  const response = await receiver.fetch(request);
  return response.ok ? undefined : (await response.text()).trim();
}

/** Reads the headers `webhook-…` from lines as curl and proxies print them. Ignores other lines. */
function headersOf(text: string): Headers {
  const headers = new Headers();
  for (const line of text.split(/\r?\n/)) {
    const [, name, value] = /^[<>]?\s*([\w-]+):\s*(.*?)\s*$/.exec(line) ?? [];
    if (name?.toLowerCase().startsWith('webhook-')) headers.set(name, value ?? '');
  }
  return headers;
}
