import { type Figures, METRICS, type Metric } from './result.ts';

/** Reports on stderr what is being measured, and its figures afterwards. */
export async function announced(what: string, measure: () => Promise<Figures>): Promise<Figures> {
  process.stderr.write(`${what} … `);
  const figures = await measure();
  const text = Object.entries(figures).map(
    ([metric, value]) => `${value.toFixed(value >= 100 ? 0 : 2)} ${METRICS[metric as Metric]}`,
  );
  process.stderr.write(`${text.join(', ')}\n`);
  return figures;
}
