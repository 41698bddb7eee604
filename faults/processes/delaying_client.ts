import { BusAnswerError, BusClient, type Credentials } from '../../harness/http/bus_client.ts';
import { serveCalls } from '../../harness/measuring/helper.ts';

/** Maximum delayed events of a publish. */
const PER_POST = 500;
const POSTS_AT_A_TIME = 4;
const DELAY_MS = 86_400_000;

export type DelayingCalls = { offer: typeof offer };

interface Offered {
  accepted: number;
  /** How many publishes were refused, by status. */
  refused: Map<number, number>;
  /** An answer of each status. */
  answers: string[];
}

/** Offers this many delayed events, and goes on however often it is refused. */
async function offer(
  url: string,
  credentials: Credentials,
  topics: string[],
  events: number,
): Promise<Offered> {
  const client = new BusClient(url, credentials);
  const body = Array.from({ length: PER_POST }, (_, n) => ({
    ...{ type: 'create', url: `https://evil.example.com/${n}`, delay: DELAY_MS + n },
  }));
  const offered: Offered = { accepted: 0, refused: new Map(), answers: [] };
  let left = Math.ceil(events / PER_POST);
  const lane = async (_: unknown, lane: number) => {
    while (left-- > 0) {
      try {
        await client.call('POST', `/topics/${topics[lane % topics.length]}`, body);
        offered.accepted += PER_POST;
      } catch (error) {
        const status = error instanceof BusAnswerError ? error.status : 0;
        if (!offered.refused.has(status)) offered.answers.push(String(error));
        offered.refused.set(status, (offered.refused.get(status) ?? 0) + 1);
      }
    }
  };
  await Promise.all(Array.from({ length: POSTS_AT_A_TIME }, lane));
  return offered;
}

serveCalls({ offer } satisfies DelayingCalls);
