import { randomUUID } from 'node:crypto';
import { ForbiddenError, Routemaster, UnauthenticatedError } from '@routemaster/client';
import { parseJson, withLongNumbers } from './long_numbers.ts';

/** The bus's error text begins with these words if the credentials are valid, but not permitted for this call. */
const RIGHT = 'the credentials are right, but ';

/** Each pair has the bus's name for some credentials, and the name that users of rtm know. */
const CREDENTIALS = [
  ["a client's credentials", "a client's TOKEN:SECRET"],
  ['the root credentials', 'the root key'],
  ['the viewer credentials', 'the viewer key'],
] as const;

/**
 * Returns the text that rtm shows if the bus refuses the credentials. The bus's own text, `text`, is about HTTP
 * authentication, which users of rtm do not see. The new text says which credentials the call needs: those that `text`
 * names. If `text` names none, the new text names those of a client and of root.
 */
function refusalText(text: string): string {
  const problem = text.startsWith(RIGHT)
    ? `${RIGHT}not for this call`
    : 'the bus refuses these credentials for this call';
  const named = CREDENTIALS.filter(([ofBus]) => text.includes(ofBus));
  const taken = (named.length > 0 ? named : CREDENTIALS.slice(0, 2)).map(([, ofRtm]) => ofRtm);
  const makes = taken.join() === CREDENTIALS[0][1] ? '; root makes a client with rtm token add SERVICE' : '';
  // What the bus adds if the user is `root` or `viewer`, as after `--token root:KEY`.
  const [, user] = /; with Basic, the (\w+) key itself is the user/.exec(text) ?? [];
  const advice =
    user === undefined ? makes : `; the ${user} key is the whole token, without ${user} before it`;
  return `${problem}: give ${taken.join(' or ')}, by --token, ROUTEMASTER_TOKEN or .rtmrc${advice}`;
}

/** Statuses after which the client library repeats a call, such as 503 while the Redis of the bus is away. */
export const REPEATED = [429, 502, 503, 504];

/** The bus that a command calls. */
export class Bus extends Routemaster {
  /** The HTTP status of the bus's last answer. Undefined before the first answer, and after an attempt without one. */
  lastStatus: number | undefined;
  /**
   * The trouble of which the user was told last: `rate` if the bus answered 429, or `outage` if calls were repeated for
   * any other reason. Undefined if the user was told of none, or if the bus has taken calls since then.
   */
  told: 'rate' | 'outage' | undefined;
  /**
   * True if the command goes on beyond the client's rate: a call that the bus refuses (429) until its time limit is
   * made again, however long that takes.
   */
  outlastsRates = false;

  /**
   * Publishes an event, or an array of events. The JSON is sent unchanged, so long numbers keep all their digits. The
   * bus stores the events once, however often they are published with the same idempotency `key` within ten minutes (by
   * default). Throws TypeError for an empty topic, `.` and `..`, which would change the path of the request.
   */
  async publishText(topic: string, json: string, key: string = randomUUID()): Promise<void> {
    if (/^\.{0,2}$/.test(topic)) throw new TypeError(`topic must not be ${topic || 'empty'}`);
    const path = `/topics/${encodeURIComponent(topic)}`;
    await this.request({ method: 'POST', path, body: json, key }, true, {});
  }

  protected override request(...[request, ...parts]: Parameters<Routemaster['request']>) {
    const { body } = request;
    const sent = body === undefined ? request : { ...request, body: withLongNumbers(body) };
    return super.request(sent, ...parts).catch((error) => {
      const isForbidden = error instanceof ForbiddenError && error.detail.startsWith(RIGHT);
      if (!isForbidden && !(error instanceof UnauthenticatedError)) throw error;
      const Refusal = isForbidden ? ForbiddenError : UnauthenticatedError;
      throw new Refusal({ ...error, detail: refusalText(error.detail) });
    });
  }

  protected override async attempt(...parts: Parameters<Routemaster['attempt']>) {
    const answer = await super.attempt(...parts).catch((error) => {
      this.lastStatus = undefined;
      throw error;
    });
    // A file that exceeds the client's rate gets 429 before each success, and the user is told of this only once.
    const isOverRate = this.lastStatus === 429 && this.told === 'rate';
    if (!REPEATED.includes(answer.status) && !isOverRate) this.told = undefined;
    this.lastStatus = answer.status;
    return answer;
  }

  protected override parse(text: string): unknown {
    return parseJson(text);
  }
}
