import type { Part } from './part.ts';
import { backlog } from './parts/backlog.ts';
import { bulk } from './parts/bulk.ts';
import { client } from './parts/client.ts';
import { consolePart } from './parts/console.ts';
import { consoleTabs } from './parts/console_tabs.ts';
import { deliver } from './parts/deliver.ts';
import { deliveries } from './parts/deliveries.ts';
import { deliveryListing } from './parts/delivery_listing.ts';
import { endToEnd } from './parts/end_to_end.ts';
import { flow } from './parts/flow.ts';
import { idle } from './parts/idle.ts';
import { memory } from './parts/memory.ts';
import { partitions } from './parts/partitions.ts';
import { publish } from './parts/publish.ts';
import { receiver } from './parts/receiver.ts';
import { retryAll } from './parts/retry_all.ts';
import { rivals } from './parts/rivals.ts';

/** The suite, in the order in which it runs. */
export const PARTS: readonly Part[] = [
  publish,
  bulk,
  client,
  receiver,
  deliver,
  endToEnd,
  flow,
  idle,
  memory,
  backlog,
  deliveries,
  deliveryListing,
  consolePart,
  partitions,
  consoleTabs,
  retryAll,
  rivals,
];
