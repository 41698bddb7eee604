import { mayNotPublish } from '../../authentication/scope.ts';
import { BusError } from '../../errors.ts';
import { topicRefusal } from '../../subscribing/topic_refusals.ts';
import type { PutOutcome } from './triggers.ts';

/** Returns the error to answer if a trigger was not stored. Returns undefined if it was stored. */
export function putRefusal(outcome: PutOutcome, topic: string): BusError | undefined {
  switch (outcome) {
    case 'created':
    case 'changed':
      return undefined;
    case 'client_not_found':
      return new BusError('forbidden', 'this client was removed');
    case 'not_permitted':
      return mayNotPublish(topic, 'topic');
    case 'too_many':
      return limitReached(
        'the bus has no room for more triggers; delete some, or have ROUTEMASTER_MAX_TRIGGERS raised',
      );
    case 'too_many_of_client':
      return limitReached(
        'this client has as many triggers as it may; delete some, or have ROUTEMASTER_MAX_CLIENT_TRIGGERS raised',
      );
    case 'too_many_bytes':
      return limitReached(
        'the triggers of this client take as much of Redis as they may; shorten the data of their events, delete some, or have the memory of Redis raised',
      );
    default:
      return topicRefusal(outcome, topic);
  }
}

function limitReached(detail: string): BusError {
  return new BusError('limit_reached', detail);
}
