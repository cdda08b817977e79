import { Stacked } from "../charts/stacked";
import { Chart, Fig, Named, Nothing, Notes, Sentence, Table, useTold, View } from "../figure";
import { brief, bytes, part } from "../words";

/** Colours by line, so that weights and cache look alike in every pool. */
const TINTS: Record<string, number> = { weights: 0, "KV cache": 2, "safety margin": 7, activations: 1, "CUDA graphs": 3, "driver context": 4 };

/** Lines below this share of the device are drawn as one, and stand in the table each. */
const SMALL_FRACTION = 0.015;

function drawn(parts: { name: string; figure: string; part_bytes: number }[], whole: number) {
  const small = parts.filter((each) => each.part_bytes < SMALL_FRACTION * whole);
  if (small.length < 2) return parts;
  const at = parts.indexOf(small[0]!);
  const one = { name: `${small.length} smaller lines`, figure: "", part_bytes: small.reduce((sum, each) => sum + each.part_bytes, 0) };
  const rest = parts.filter((each) => !small.includes(each));
  return [...rest.slice(0, at), one, ...rest.slice(at)];
}

export function MemoryView() {
  const { plan } = useTold();
  const several = plan.pools.length > 1;
  return (
    <View id="memory" question="What is each device's memory reserved for?">
      {plan.pools.map((pool) => {
        const of = several ? pool.name : "";
        const series = plan.series(pool.name);
        const parts = series?.memory.filter((each) => each.part_bytes > 0) ?? [];
        return (
          <div key={pool.name}>
            {several && <h3>{pool.name}</h3>}
            <Sentence>
              Beside <Named name="memory.weights_bytes" pool={of} /> of weights each {pool.machines.device} keeps{" "}
              <Named name="memory.kv_cache_bytes" pool={of} /> of KV cache: <Named name="memory.kv_tokens" pool={of} /> a
              replica, enough for <Named name="memory.sequences" pool={of} /> of the longest context at once, and{" "}
              <Named name="memory.headroom_bytes" pool={of} /> more than the worst approved load needs.
            </Sentence>
            {series && parts.length ? (
              <>
                <Chart title={`Memory of one ${pool.machines.device}, ${bytes(series.device_bytes)}`} caption="The lines add up to the device.">
                  <Stacked
                    label={`Memory of one ${pool.machines.device}: ${parts.map((each) => `${each.name} ${bytes(each.part_bytes)}`).join(", ")}`}
                    whole={series.device_bytes}
                    bars={[
                      {
                        label: "",
                        parts: drawn(parts, series.device_bytes).map((each) => ({
                          label: each.name,
                          value: each.part_bytes,
                          shown: bytes(each.part_bytes),
                          name: each.figure ? plan.figure(each.figure, of)?.name : null,
                          tint: TINTS[each.name] ?? 5,
                        })),
                      },
                    ]}
                  />
                </Chart>
                <Table
                  caption={`Lines of one ${pool.machines.device}`}
                  rows={parts}
                  columns={[
                    { head: "line", cell: (row) => row.name },
                    { head: "bytes", right: true, cell: (row) => <Fig of={plan.figure(row.figure, of)} /> },
                    { head: "of the device", right: true, cell: (row) => part(row.part_bytes / series.device_bytes) },
                    { head: "evidence", cell: (row) => plan.figure(row.figure, of)?.evidence ?? "" },
                  ]}
                />
              </>
            ) : (
              <Nothing>This plan has no memory lines. Plan again with this version to have them.</Nothing>
            )}
            <p class="beside">
              Beyond one device: tensor parallelism of at least {brief(plan.number("memory.smallest_tp", of) ?? 1)} holds the
              model; the longest context that fits is <Named name="memory.longest_context_tokens" pool={of} />.
            </p>
            <Notes stage="memory" pool={of} />
          </div>
        );
      })}
    </View>
  );
}
