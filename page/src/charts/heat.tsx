import { brief } from "../words";
import { Drawing } from "./frame";

const DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const LEFT = 38;
const TOP = 18;

/** A week by hour: darker is more, and the busiest hour has a frame. */
export function Heat({ hours, unit, label }: { hours: number[]; unit: string; label: string }) {
  const most = Math.max(...hours);
  const busiest = hours.indexOf(most);
  const side = (width: number) => (width - LEFT) / 24;
  const tall = (width: number) => Math.min(30, Math.max(16, side(width)));
  return (
    <>
      <Drawing label={label} height={(width) => TOP + 7 * tall(width) + 4}>
        {(width) => (
          <>
            <text class="axis" x={LEFT - 6} y={12} text-anchor="end">
              hour
            </text>
            {[0, 3, 6, 9, 12, 15, 18, 21].map((hour) => (
              <text key={hour} class="axis" x={LEFT + (hour + 0.5) * side(width)} y={12} text-anchor="middle">
                {hour}
              </text>
            ))}
            {DAYS.map((day, row) => (
              <text key={day} class="axis" x={LEFT - 6} y={TOP + (row + 0.5) * tall(width) + 4} text-anchor="end">
                {day}
              </text>
            ))}
            {hours.map((each, at) => (
              <rect
                key={at}
                class={at === busiest ? "cell busiest" : "cell"}
                x={LEFT + (at % 24) * side(width) + 0.5}
                y={TOP + Math.floor(at / 24) * tall(width) + 0.5}
                width={side(width) - 1}
                height={tall(width) - 1}
                style={{ fillOpacity: String(most > 0 ? each / most : 0) }}
              >
                <title>{`${DAYS[Math.floor(at / 24)]} ${at % 24}:00, ${brief(each)} ${unit}`}</title>
              </rect>
            ))}
          </>
        )}
      </Drawing>
      <p class="scale">
        <span>0</span>
        <span class="ramp" aria-hidden="true" />
        <span>
          {brief(most)} {unit}
        </span>
      </p>
    </>
  );
}

export const hourName = (at: number) => {
  const names = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
  return `${names[Math.floor(at / 24)]} ${at % 24}:00`;
};
