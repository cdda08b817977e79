import { Stacked } from "../charts/stacked";
import type { Quantity } from "../document";
import { Chart, Fig, Named, Nothing, Notes, Sentence, Table, useTold, View } from "../figure";
import { brief, counted, percent } from "../words";

const worth = (of: Quantity | null | undefined) => (of && typeof of.value === "number" ? of.value : 0);
const TINTS: Record<string, number> = { nominal: 0, "demand uncertainty": 4, "untested step times": 1, "length uncertainty": 7, failure: 2, rollout: 3, maintenance: 3, warm: 5, region: 6 };

export function FleetView() {
  const { plan } = useTold();
  const several = plan.pools.length > 1;
  return (
    <View id="fleet" question="Where do the replicas run, and which of them are reserve?">
      {plan.pools.map((pool) => {
        const of = several ? pool.name : "";
        const zones = plan.series(pool.name)?.zones ?? [];
        const rows = pool.replicas.filter((each) => worth(each.amount) > 0);
        return (
          <div key={pool.name}>
            {several && <h3>{pool.name}</h3>}
            <Sentence>
              Of <Fig of={pool.machines.replicas} /> the planned load needs <Named name="fleet.replicas" pool={of} />, and{" "}
              <Named name="reserve.replicas" pool={of} /> are reserve; they run on <Fig of={pool.machines.nodes} text={counted(worth(pool.machines.nodes), "machine")} />
              {zones.length > 0 && ` in ${counted(zones.length, "zone")}`}.
            </Sentence>
            <Chart title="Replicas by purpose" caption="Overlapping reserves are bought once: the largest covers the others.">
              <Stacked
                label={`Replicas: ${rows.map((each) => `${each.name} ${brief(worth(each.amount))}`).join(", ")}`}
                bars={[
                  {
                    label: "",
                    parts: rows.map((each, at) => ({
                      label: each.name,
                      value: worth(each.amount),
                      shown: brief(worth(each.amount)),
                      name: each.amount.name,
                      tint: TINTS[each.name] ?? at,
                    })),
                  },
                ]}
              />
            </Chart>
            {zones.length ? (
              <Chart title="Devices by zone" caption={`On machines of the shape ${pool.machines.shape}.`}>
                <Stacked
                  label={`Zones: ${zones.map((each) => `${each.zone} ${each.nodes} machines, ${each.replicas} replicas`).join("; ")}`}
                  bars={zones.map((each) => ({
                    label: each.zone,
                    remark: `${counted(each.nodes, "machine")}, ${counted(each.replicas, "replica")}`,
                    parts: [
                      { label: "devices with a replica", value: each.used_devices, shown: brief(each.used_devices), tint: 0, name: plan.figure(`placement.${each.zone}.replicas`, of)?.name },
                      { label: "devices without", value: each.unused_devices, shown: brief(each.unused_devices), tint: 7 },
                    ],
                  }))}
                />
              </Chart>
            ) : (
              <Nothing>This plan lists no zones. Plan again with this version to have them.</Nothing>
            )}
            <Table
              caption="Replicas and reserves"
              rows={[...pool.replicas, pool.rounding]}
              columns={[
                { head: "line", cell: (row) => row.name },
                { head: "amount", right: true, cell: (row) => <Fig of={row.amount} /> },
                { head: "a month", right: true, cell: (row) => (row.usd && worth(row.amount) ? <Fig of={row.usd} /> : "–") },
                { head: "why", wide: true, cell: (row) => (worth(row.amount) ? row.remark : "") },
              ]}
            />
            <p class="beside">
              Use of what serves:{" "}
              {pool.utilisation.map((each, at) => (
                <span key={each.name}>
                  {at > 0 && ", "}
                  {each.name} <Fig of={each.utilisation} text={percent(worth(each.utilisation))} />
                </span>
              ))}
              . What binds first:{" "}
              {pool.stops.map((each, at) => (
                <span key={each.name}>
                  {at > 0 && ", then "}
                  {each.name}
                  {each.growth && (
                    <>
                      {" "}
                      at <Fig of={each.growth} /> more traffic
                    </>
                  )}
                </span>
              ))}
              .
            </p>
            <Notes stage="reserves" pool={of} />
            <Notes stage="binding" pool={of} />
          </div>
        );
      })}
    </View>
  );
}
