import { Copies } from '../src/publishing/copies.ts';
import type { PublishingParts } from '../src/publishing/group_commit.ts';
import type { Partitions } from '../src/store/partitions.ts';
import { PUBLISH_LIMITS } from './scripts/bus_inputs.ts';

/** Returns the parts of a Publisher. Those that are not given do nothing. */
export function publishingParts(
  partitions: Partitions,
  given: Partial<PublishingParts> = {},
): PublishingParts {
  return {
    partitions,
    copies: new Copies(partitions),
    recorder: { published: () => {}, added: () => {} },
    limits: PUBLISH_LIMITS,
    onFull: () => {},
    onAccepted: () => {},
    ...given,
  };
}
