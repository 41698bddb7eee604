import { JOINS, TRIGGERS } from './flow_texts.ts';
import type { Texts } from './openapi.ts';
import { CLIENTS, DEAD_LETTERS, RECORDS, REFERENCE, WATCHING } from './record_texts.ts';
import { PUBLISHING, SUBSCRIBING, TOPICS } from './topic_texts.ts';

interface Chapter {
  name: string;
  description: string;
  texts: Texts;
}

/** The chapters of the documentation. Together they have a text for every route, except for aliases. */
export const CHAPTERS: readonly Chapter[] = [
  { name: 'Publishing', description: 'Events enter the bus.', texts: PUBLISHING },
  { name: 'Topics', description: 'What there is to subscribe to.', texts: TOPICS },
  { name: 'Subscribing', description: 'Who gets which events, where, and how.', texts: SUBSCRIBING },
  { name: 'Joins', description: 'Events that come when several topics have spoken.', texts: JOINS },
  { name: 'Triggers', description: 'Events that come on a schedule.', texts: TRIGGERS },
  {
    name: 'Dead letters',
    description: 'Batches that are not tried any more, kept whole.',
    texts: DEAD_LETTERS,
  },
  { name: 'Clients', description: 'Who may call, and with which limits.', texts: CLIENTS },
  { name: 'Records', description: 'What was done, and what is queued.', texts: RECORDS },
  { name: 'Watching', description: 'Whether the bus works, and how it does.', texts: WATCHING },
  { name: 'Reference', description: 'This documentation.', texts: REFERENCE },
];
