import type { z } from 'zod';
import type { PublicNames } from '../authentication/public_names.ts';
import type { Caller } from '../routing/caller.ts';
import { PAGE_FIELDS } from '../routing/paging.ts';
import { ENTRIES_PER_CALL } from '../routing/picking.ts';
import { badParameter, parameters, whose } from '../routing/query.ts';
import { countUpTo } from '../routing/schemas.ts';
import type { Triggers } from './triggers.ts';

const MAX_PREVIEW = 100;

const CLIENT = { client: whose('triggers') };

export const WHOSE = parameters(CLIENT);
export const ONE = parameters({
  ...CLIENT,
  preview: countUpTo(MAX_PREVIEW).optional().describe('How many of the next times to show.'),
});
export const PAGE = parameters({ ...CLIENT, ...PAGE_FIELDS });

export type Whose = z.infer<typeof WHOSE.schema>;

/**
 * Finds the client whose triggers a call is about. A client can ask only about its own triggers. Root names the client
 * by its token. Viewers name the client by its public name.
 */
export class TriggerOwners {
  readonly #triggers: Pick<Triggers, 'names'>;
  readonly #publicNames: PublicNames;

  constructor(triggers: Pick<Triggers, 'names'>, publicNames: PublicNames) {
    this.#triggers = triggers;
    this.#publicNames = publicNames;
  }

  /**
   * Finds the client that the query names. `token` is undefined if the query means all clients. It is null if a viewer
   * named a client that has no triggers or does not exist. If root sends a token, it is not checked. `calls` is the
   * price of the search, as a number of calls in the rate limit.
   */
  async asked(
    caller: Caller,
    { client }: Whose,
  ): Promise<{ token: string | undefined | null; calls: number }> {
    if (caller.role === 'client') {
      if (client === undefined) return { token: caller.token, calls: 0 };
      throw badParameter('client', 'is for root; leave it out, and your own triggers are meant');
    }
    if (caller.role === 'root' || client === undefined) return { token: client, calls: 0 };
    const names = await this.#triggers.names();
    const tokens = new Set(names.map((each) => each.client));
    const token = (await this.#publicNames.tokenOf(client, async () => tokens)) ?? null;
    return { token, calls: names.length / ENTRIES_PER_CALL };
  }

  /** Finds the client of a call about a single trigger. In such a call, root and viewers must name the client. */
  async one(caller: Caller, query: Whose): Promise<{ token: string | null; calls: number }> {
    const { token, calls } = await this.asked(caller, query);
    if (token === undefined) throw badParameter('client', 'is missing: say whose, as ?client=token');
    return { token, calls };
  }
}
