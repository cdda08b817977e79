import { createContext, type ComponentChildren } from "preact";
import { useContext } from "preact/hooks";
import type { Plan, Quantity } from "./document";
import { sign } from "./evidence";
import { chance, show, spaced } from "./words";

export interface Told {
  plan: Plan;
  explain: (name: string) => void;
}

export const Telling = createContext<Told>(null as unknown as Told);
export const useTold = () => useContext(Telling);

/** A number with the sign of its evidence; a click or Enter explains it down to its sources. */
export function Fig({ of, text }: { of: Quantity | null | undefined; text?: string }) {
  const { explain } = useTold();
  if (!of) return <span class="none">not known</span>;
  const shown = (text ?? show(of.value, of.unit)) || "none";
  return (
    <button
      type="button"
      class={`fig ${of.evidence}`}
      data-name={of.name}
      title={`${of.name}, ${of.evidence}: explain`}
      aria-label={`${shown}, ${of.evidence}: explain ${of.name}`}
      onClick={() => explain(of.name)}
    >
      {shown}
      <span class="sign" aria-hidden="true">
        {sign(of.evidence)}
      </span>
    </button>
  );
}

/** The figure of this name where the plan has it. */
export function Named({ name, pool = "", text }: { name: string; pool?: string; text?: string }) {
  const { plan } = useTold();
  return <Fig of={plan.figure(name, pool)} text={text} />;
}

/** A chance, with the digits that draws can tell. */
export const Chance = ({ of }: { of: Quantity | null | undefined }) => (
  <Fig of={of} text={typeof of?.value === "number" ? chance(of.value) : undefined} />
);

/** A question, the sentence that answers it, then what it rests on. */
export function View({ id, question, children }: { id: string; question: string; children: ComponentChildren }) {
  return (
    <section id={id} class="view" aria-labelledby={`${id}-question`}>
      <h2 id={`${id}-question`}>{question}</h2>
      {children}
    </section>
  );
}

export const Sentence = ({ children }: { children: ComponentChildren }) => <p class="sentence">{children}</p>;

/** A chart's place: what it shows above it, and how to read it below. */
export function Chart({ title, caption, children }: { title: string; caption: ComponentChildren; children: ComponentChildren }) {
  return (
    <figure class="chart">
      <p class="chart-title">{title}</p>
      {children}
      <figcaption>{caption}</figcaption>
    </figure>
  );
}

/** What stands where a chart would, when the plan has nothing to draw. */
export const Nothing = ({ children }: { children: ComponentChildren }) => (
  <p class="nothing" role="note">
    {children}
  </p>
);

export interface Column<Row> {
  head: string;
  cell: (row: Row) => ComponentChildren;
  right?: boolean;
  /** Sentences, which need room also where the table scrolls. */
  wide?: boolean;
  /** A few words that stay on one line. */
  tight?: boolean;
}

/** On a phone a row is a card, its cells below each other with their heads, so that nothing is read by scrolling sideways. */
export function Table<Row>({ rows, columns, caption }: { rows: Row[]; columns: Column<Row>[]; caption: string }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={caption}>
      <table class={columns.length > 3 ? "cards" : columns.some((each) => each.wide) ? "cards short" : ""}>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {columns.map((each, at) => (
              <th key={`${each.head}${at}`} scope="col" class={each.right ? "right" : ""}>
                {each.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            <tr key={at}>
              {columns.map((each, place) =>
                place === 0 ? (
                  <th key={place} scope="row">
                    {each.cell(row)}
                  </th>
                ) : (
                  <td key={place} data-head={each.head} class={each.right ? "right" : each.wide ? "text" : each.tight ? "tight" : ""}>
                    {each.cell(row)}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Stages whose name is no noun that notes could be about. */
const ABOUT: Record<string, string> = { binding: "what binds", uncertainty: "risk", bill: "the bill" };

/** Sentences of a stage: what was approximated, what is uncertain, what to measure next. */
export function Notes({ stage, pool = "" }: { stage: string; pool?: string }) {
  const { plan } = useTold();
  const notes = plan.stage(stage, pool)?.notes ?? [];
  if (!notes.length) return null;
  return (
    <details class="notes">
      <summary>
        {notes.length === 1 ? "One note" : `${notes.length} notes`} on {ABOUT[stage] ?? spaced(stage)}
      </summary>
      <ul>
        {notes.map((each) => (
          <li key={each}>{each}</li>
        ))}
      </ul>
    </details>
  );
}
