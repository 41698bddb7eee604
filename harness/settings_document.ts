import { writeFileSync } from 'node:fs';
import { OF_BIN_START, SECTIONS } from '../src/config/settings.ts';

const COLUMNS = 120;

/** Returns the text of `.env.example`: every setting, and what bin/start reads, commented out, with its default. */
export function envExample(): string {
  const sections = Object.entries({ ...SECTIONS, 'bin/start alone': OF_BIN_START }).map(
    ([title, settings]) => [
      `# --- ${title} `.padEnd(COLUMNS, '-'),
      ...Object.values(settings).map(({ variable, unset = '', help }) => `# ${help}\n# ${variable}=${unset}`),
    ],
  );
  return `${[
    '# Every variable that Routemaster reads, with its default. An empty value counts as unset.\n' +
      '# Only ROUTEMASTER_ROOT_KEY must be set; `bin/start` makes one unless it is.\n' +
      '# `bin/start` reads a file `.env` like this one; the real environment wins.',
    ...sections.flat(),
  ].join('\n\n')}\n`;
}

// `npm run settings` writes it.
if (import.meta.main) writeFileSync('.env.example', envExample());
