import { render } from "preact";
import type { PlanJson } from "./document";
import { PlanPage } from "./page";
import "./style.css";

/** The report: the plan stands in the page itself, as text that nothing runs. */
const held = document.getElementById("plan");
const place = document.getElementById("page");
if (place && held) {
  place.replaceChildren();
  render(<PlanPage json={JSON.parse(held.textContent ?? "") as PlanJson} />, place);
} else if (place) place.textContent = "There is no plan in this page: make one with ullage report.";
