export type { Calls, EventType } from './generated/calls.ts';
export * from './generated/problems.ts';
export { type Problem, ProblemError, RoutemasterError } from './problem.ts';
