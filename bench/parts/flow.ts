import type { Part } from '../part.ts';
import { delayedEvents } from './delayed.ts';
import { idleTriggers } from './idle_triggers.ts';
import { triggers } from './triggers.ts';

/** Delayed events and triggers: how late they come, and what triggers cost while none is due. */
export const flow: Part = {
  name: 'flow',
  title: 'how late delayed events and triggers come; 100,000 triggers that are not due',
  run: async (stage, options) => [
    ...(await delayedEvents(stage, options)),
    ...(await triggers(stage, options)),
    ...(await idleTriggers(stage, options)),
  ],
};
