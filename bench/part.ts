import type { Options } from './options.ts';
import { announced } from './progress.ts';
import type { Figures, Row, Table } from './result.ts';
import type { Stage } from './stage.ts';
import { judge, type Target, type Verdict } from './targets.ts';

/** A part of the suite: one file of `bench/parts/`. */
export interface Part {
  name: string;
  /** The title of the part in the list of parts. */
  title: string;
  /** Makes the measurements. The stage with all its processes ends afterwards. */
  run: (stage: Stage, options: Options) => Promise<Measured[]>;
}

/** A table that is not measured yet: a case for each row. */
export interface Plan {
  title: string;
  notes: string[];
  cases: Case[];
  targets?: Target[];
}

export interface Case {
  row: string;
  /** The rows that this one is compared with, such as what the platform itself costs. */
  floors?: string[];
  measure: () => Promise<Figures>;
}

export interface Measured {
  table: Table;
  verdicts: Verdict[];
}

/** Measures all cases once, then all again, so that a slow spell of the machine hits neighbouring rows alike. */
export async function measureInTurn(
  part: string,
  plans: readonly Plan[],
  { runs, only }: Pick<Options, 'runs' | 'only'>,
): Promise<Measured[]> {
  const tables = plans
    .map((plan) => ({ plan, chosen: choose(plan, only) }))
    .filter(({ chosen }) => chosen.length > 0)
    .map(({ plan, chosen }) => ({ plan, chosen, rows: chosen.map(emptyRow) }));
  const all = runs * tables.reduce((sum, { chosen }) => sum + chosen.length, 0);
  let done = 0;
  for (let run = 1; run <= runs; run++) {
    for (const { plan, chosen, rows } of tables) {
      for (const [index, { row, measure }] of chosen.entries()) {
        const what = `[${++done}/${all}] ${plan.title.startsWith(part) ? '' : `${part}, `}${plan.title}: ${row}`;
        rows[index]?.repetitions.push(await announced(what, measure));
      }
    }
  }
  return tables.map(({ plan, rows }) => {
    const table = { title: plan.title, notes: plan.notes, rows };
    return { table, verdicts: judge(table, plan.targets ?? []) };
  });
}

/** Returns the cases whose table and row contain the text `only`, with their floors. */
function choose({ title, cases }: Plan, only: string | undefined): Case[] {
  if (only === undefined) return cases;
  const chosen = cases.filter(({ row }) => isChosen(title, row, only));
  const floors = new Set(chosen.flatMap((each) => each.floors ?? []));
  return cases.filter((each) => chosen.includes(each) || floors.has(each.row));
}

/** Returns true if `--only` selects this row. */
export function isChosen(title: string, row: string, only: string | undefined): boolean {
  return only === undefined || `${title}: ${row}`.includes(only);
}

function emptyRow({ row, floors = [] }: Case): Row {
  return { name: row, floors, repetitions: [] };
}
