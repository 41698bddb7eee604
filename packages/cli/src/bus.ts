import { randomUUID } from 'node:crypto';
import { ForbiddenError, Routemaster, UnauthenticatedError } from '@routemaster/client';
import { parseJson } from './long_numbers.ts';

/** How the bus begins the text of an error if the credentials are right, but their role may not make the call. */
const RIGHT = 'the credentials are right, but ';

/** Pairs of texts for the same credentials: the bus's, and one for users of rtm. */
const CREDENTIALS = [
  ["a client's credentials", "a client's TOKEN:SECRET"],
  ['the root credentials', 'the root key'],
  ['the viewer credentials', 'the viewer key'],
] as const;

/**
 * Returns a text for users of rtm that replaces the bus's text about refused credentials, which speaks of Basic and
 * Digest. The new text names the same credentials or, if the bus names none, those of a client and of root.
 */
function refusalText(text: string): string {
  const problem = text.startsWith(RIGHT)
    ? `${RIGHT}not for this call`
    : 'the bus refuses these credentials for this call';
  const named = CREDENTIALS.filter(([ofBus]) => text.includes(ofBus));
  const taken = (named.length > 0 ? named : CREDENTIALS.slice(0, 2)).map(([, ofRtm]) => ofRtm);
  const advice = taken.join() === CREDENTIALS[0][1] ? '; root makes a client with rtm token add SERVICE' : '';
  return `${problem}: give ${taken.join(' or ')}, by --token, ROUTEMASTER_TOKEN or .rtmrc${advice}`;
}

/** The bus that a command calls. */
export class Bus extends Routemaster {
  /** The status of the last answer. Undefined if there was none yet. */
  lastStatus: number | undefined;

  /**
   * Publishes an event, or an array of events. The JSON is sent unchanged, so long numbers keep all their digits.
   * Throws TypeError for an empty topic, `.` and `..`, which would change the path of the request.
   */
  async publishText(topic: string, json: string): Promise<void> {
    if (/^\.{0,2}$/.test(topic)) throw new TypeError(`topic must not be ${topic || 'empty'}`);
    const path = `/topics/${encodeURIComponent(topic)}`;
    await this.request({ method: 'POST', path, body: json, key: randomUUID() }, true, {});
  }

  protected override request(...parts: Parameters<Routemaster['request']>) {
    return super.request(...parts).catch((error) => {
      const isForbidden = error instanceof ForbiddenError && error.detail.startsWith(RIGHT);
      if (!isForbidden && !(error instanceof UnauthenticatedError)) throw error;
      const Refusal = isForbidden ? ForbiddenError : UnauthenticatedError;
      throw new Refusal({ ...error, detail: refusalText(error.detail) });
    });
  }

  protected override async attempt(...parts: Parameters<Routemaster['attempt']>) {
    const answer = await super.attempt(...parts);
    this.lastStatus = answer.status;
    return answer;
  }

  protected override parse(text: string): unknown {
    return parseJson(text);
  }
}
