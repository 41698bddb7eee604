export type { ListOptions } from './any_call.ts';
export type { CallAnswer, CallInput, CallName } from './calls.ts';
export type { CallOptions } from './deadline.ts';
export type { Calls, EventType } from './generated/calls.ts';
export * from './generated/problems.ts';
export type { NewEvent } from './pending.ts';
export {
  ClosedError,
  ConnectionError,
  type Problem,
  ProblemError,
  RoutemasterError,
  TimeLimitError,
} from './problem.ts';
export { PublishAllError, type PublishFailure } from './publish_all.ts';
export { type EventDetails, Routemaster, type RoutemasterOptions } from './routemaster.ts';
