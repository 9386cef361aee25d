"""The closed grammar: sentences of a household assistant, a diary and a short story.

Every sentence is one template with its slots filled.  A sentence may hold a pair of numbers.
One sentence in fifty and one pair in ten are never used for training.

    python grammar.py        # counts of sentences and words, and some examples
"""

import random
import re
import zlib

ONES = "one two three four five six seven eight nine".split()
TEENS = (
    "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
)
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
SMALL = ONES + TEENS + [" ".join(filter(None, (ten, one))) for ten in TENS for one in ["", *ONES]]
HOURS = SMALL[:12]
MINUTES = [*TEENS, *SMALL[19:59]]

LISTS = {
    "name": """
        Alice Anna Arthur Ben Carla Charlie Clara Daniel David Diana Edward Elena Emily Emma Eric
        Eva Felix Frank George Grace Hannah Harry Helen Henry Ida Jack James Jane Julia Karen Kate
        Laura Leo Linda Lucy Maria Mark Martha Martin Mary Max Mia Michael Nora Oliver Oscar Paul
        Peter Rachel Robert Rosa Ruth Sam Sarah Simon Sophie Thomas Tom Victor William
    """,
    "city": """
        Athens Berlin Boston Brussels Cairo Chicago Copenhagen Denver Dublin Edinburgh Florence
        Geneva Hamburg Helsinki Lisbon London Madrid Manchester Melbourne Milan Montreal Munich
        Naples Oslo Oxford Paris Prague Rome Seattle Stockholm Sydney Tokyo Toronto Vienna Warsaw
        Zurich
    """,
    "room": """
        kitchen,bathroom,bedroom,living room,dining room,hallway,garage,garden,office,basement,attic,
        nursery,balcony,guest room
    """,
    "device": """
        light,lamp,fan,heater,radio,television,oven,printer,camera,speaker,dishwasher,washing machine,
        coffee machine,air conditioner,vacuum cleaner
    """,
    "opening": "door,window,curtain,gate,blind,skylight",
    "food": """
        apples,bananas,bread,butter,carrots,cheese,cherries,chicken,chocolate,coffee,cookies,cucumbers,
        eggs,fish,garlic,grapes,ham,honey,jam,lemons,lettuce,melons,milk,mushrooms,mustard,noodles,nuts,
        olive oil,onions,orange juice,oranges,pasta,peaches,peanuts,peas,pepper,pizza,plums,potatoes,
        pumpkins,rice,salad,salt,sausages,soup,spinach,strawberries,sugar,tea,tomatoes,vinegar,water,
        yogurt
    """,
    "unit": "bottles,boxes,bags,cans,pounds,packets,jars,cups,spoons,bowls",
    "meal": "breakfast,lunch,dinner,supper",
    "day": "Monday,Tuesday,Wednesday,Thursday,Friday,Saturday,Sunday",
    "month": """
        January,February,March,April,May,June,July,August,September,October,November,December
    """,
    "ordinal": """
        first,second,third,fourth,fifth,sixth,seventh,eighth,ninth,tenth,eleventh,twelfth,thirteenth,
        fourteenth,fifteenth,sixteenth,seventeenth,eighteenth,nineteenth,twentieth
    """,
    "when": """
        today,tomorrow,tonight,this morning,this evening,this afternoon,next week,on Monday,on Tuesday,
        on Wednesday,on Thursday,on Friday,on Saturday,on Sunday,after lunch,before dinner,at noon,
        at midnight
    """,
    "part": "in the morning,in the afternoon,in the evening,at night",
    "color": "red,green,blue,yellow,white,black,brown,orange,purple,pink,grey,golden,silver",
    "animal": """
        bear,bird,camel,cat,chicken,cow,dog,dolphin,donkey,duck,eagle,elephant,fox,frog,giraffe,goat,
        hamster,horse,lion,monkey,mouse,owl,parrot,penguin,pig,rabbit,sheep,snake,spider,squirrel,tiger,
        turtle,whale,wolf,zebra
    """,
    "mood": "happy,sad,tired,hungry,angry,clever,lazy,brave,quiet,curious,lonely,friendly,proud,shy",
    "thing": """
        ball,basket,bell,blanket,boat,book,box,bucket,candle,chair,clock,coat,cup,drum,flag,guitar,hammer,
        hat,jacket,key,knife,ladder,letter,map,mirror,needle,newspaper,painting,pencil,pillow,ring,rope,
        shirt,shoe,spoon,suitcase,table,ticket,towel,umbrella,violin,wallet,wheel
    """,
    "place": """
        airport,bakery,bank,beach,bridge,castle,church,cinema,farm,forest,harbor,hospital,hotel,island,
        library,market,mountain,museum,office,park,pharmacy,playground,post office,restaurant,river,
        school,square,stadium,station,street,supermarket,theater,tower,valley,village,zoo
    """,
    "weather": "rain,snow,wind,sunshine,fog,thunder,clouds,ice",
    "style": "jazz,rock,blues,folk,classical,piano,country,dance,guitar,opera",
    "job": """
        doctor,teacher,farmer,baker,pilot,driver,nurse,painter,singer,dancer,engineer,lawyer,sailor,
        soldier,writer,student,gardener,carpenter,captain,king,queen
    """,
    "person": """
        my mother,my father,my sister,my brother,my uncle,my aunt,my neighbor,my friend,my boss,my cousin,
        the doctor,the dentist,the teacher,the plumber,the landlord,the office
    """,
    "chore": """
        water the plants,feed the cat,walk the dog,clean the windows,wash the car,pay the rent,
        call the bank,buy a present,take out the trash,book a flight,return the books,pick up the children,
        check the mail,charge the phone,iron the shirts,mow the lawn,repair the bicycle,send the report
    """,
    "moved": "walked,ran,drove,traveled,hurried,went,moved,returned",
    "did": """
        found,lost,bought,sold,carried,dropped,painted,broke,repaired,borrowed,forgot,hid,washed,opened,
        closed,watched,touched,received
    """,
    "where": "under,behind,near,beside,above,in front of,next to,inside",
    "size": "big,small,old,new,long,short,heavy,light,round,beautiful,strange,broken,cheap,expensive",
    "sport": "football,tennis,basketball,chess,golf,hockey,cricket,cards",
    "vehicle": "train,bus,car,taxi,bicycle,plane,ship,truck,tram",
    "language": "French,German,Spanish,Italian,English,Greek,Polish,Turkish,Swedish,Dutch,Russian",
    "subject": """
        history,music,science,art,biology,geography,physics,chemistry,mathematics,literature
    """,
    "length": "seconds,minutes,hours",
    "measure": "meters,miles,inches,feet,liters,gallons,grams,kilometers",
    "percent": "brightness,volume,speed,battery,humidity",
    "again": "again,please,now,right away,as soon as possible,for me",
}
SLOTS = {
    slot: [" ".join(word.split()) for word in (text.split(",") if "," in text else text.split())]
    for slot, text in LISTS.items()
}
SLOTS["number"] = SMALL
SLOTS["hour"] = HOURS

# {a} and {b} are a pair of numbers, {h} and {m} a time of day.
TEMPLATES = """
Turn on the {device} in the {room}.
Turn off the {device} in the {room}.
Turn the {room} {device} off {again}.
Switch on the {color} {device} in the {room}.
Open the {opening} in the {room} {again}.
Close the {opening} of the {room}.
Is the {opening} in the {room} open?
Is the {device} in the {room} still on?
Set the {device} in the {room} to {number} percent.
Make the {room} {number} degrees warmer.
Set the {percent} to {number} percent {again}.
Set a timer for {number} {length}.
Set a timer for {a} minutes and {b} seconds.
Wake me up at {h} {m} {part}.
Set an alarm for {h} {m} on {day}.
Remind me to {chore} {when}.
Remind me on {day} at {h} {m} to {chore}.
Do not forget to {chore} {when}.
{name} wants to {chore} {when}.
Can you {chore} {again}?
Play some {style} music in the {room}.
Play the {ordinal} song of {name}.
Play {style} for {number} {length} {again}.
Stop the music in the {room} {again}.
What is the weather like in {city} {when}?
Will there be {weather} in {city} {when}?
Expect {weather} and {weather} in {city} on {day}.
It is {number} degrees in {city} {when}.
Add {food} to the shopping list.
Add {food} and {food} to the shopping list.
Add {number} {unit} of {food} to the shopping list.
Buy {food}, {food} and {food} at the {place}.
We need {number} {unit} of {food} for {meal}.
We had {food} with {food} for {meal}.
Is there any {food} left in the {room}?
How many {unit} of {food} do we need for {meal}?
Cook the {food} with {food} for {number} minutes.
Call {name} {when}.
Call {person} on {day} at {h} {m}.
Send a message to {name} and {name} {again}.
Tell {person} that {name} is {mood}.
Tell {name} to meet me at the {place} at {h} {m}.
Ask {name} about the {subject} lesson on {day}.
What time is it in {city}?
The {vehicle} to {city} leaves at {h} {m}.
The next {vehicle} to {city} leaves in {number} minutes.
Book two tickets to {city} for the {ordinal} of {month}.
How do I get from the {place} to the {place}?
How far is it from {city} to {city}?
It is {number} {measure} from the {place} to the {place}.
Take the {ordinal} street after the {place}.
My birthday is on the {ordinal} of {month}.
Schedule a meeting with {name} on the {ordinal} of {month}.
Move the meeting with {name} from {day} to {day}.
Cancel my appointment with {person} on {day}.
How much is {a} plus {b}?
How much is {a} minus {b}?
How much is {a} times {b}?
{a} plus {b} is less than one thousand.
Divide {a} {measure} by {b}.
The numbers are {a} and {b}.
Read page {a} and page {b} {again}.
The answer to question {a} is {b}.
My room number is {a} and the code is {b} {number}.
The team of {city} won {a} to {b}.
Who won the {sport} game between {city} and {city}?
{name} plays {sport} with {name} on {day}.
{name} learned {language} in {city}.
Translate this letter from {language} to {language}.
How do you say good {again} in {language}?
{name} studies {subject} and {language} in {city}.
The {color} {thing} is {where} the {thing}.
The {animal} is {where} the {size} {thing}.
There is a {size} {animal} in the {room}.
There are {number} {color} birds {where} the {place}.
Where did {name} put the {size} {thing}?
{name} {did} the {color} {thing} {when}.
{name} {did} a {size} {thing} at the {place}.
The {job} {did} a {color} {thing} in {city}.
The {job} and the {job} {moved} to the {place}.
The {mood} {animal} {moved} to the {place}.
The {size} {color} {animal} {moved} to {city}.
A {mood} {job} gave {name} a {size} {thing}.
Once there was a {mood} {animal} who lived near a {place}.
The {animal} and the {animal} were very {mood}.
{name} and the {mood} {job} {moved} to {city} by {vehicle}.
{name} works as a {job} in {city}.
Every {day} the {job} has {food} for {meal}.
I saw a {color} {vehicle} {where} the {place}.
I think the {job} is {mood} {when}.
I would like {food} and {food} {again}.
She has a {color} {animal} and he has a {size} {vehicle}.
They {moved} from the {place} to the {place} {when}.
""".strip().splitlines()
SLOT = re.compile(r"{(\w+)}")
ARTICLE = re.compile(r"\b([Aa]) (?=[aeiou])")
MARKS = re.compile(r"[.,?]")


def held_out_pair(pair):
    return zlib.crc32(" ".join(pair).encode()) % 10 == 0


def held_out_sentence(text):
    return zlib.crc32(text.encode()) % 50 == 0


def draw(rng):
    """A sentence and its pair of numbers, or None in place of the pair."""
    pair, used = None, set()

    def fill(match):
        nonlocal pair
        slot = match[1]
        if slot in "ah":
            pair = (
                (rng.choice(SMALL), rng.choice(SMALL))
                if slot == "a"
                else (rng.choice(HOURS), rng.choice(MINUTES))
            )
            return pair[0]
        if slot in "bm":
            return pair[1]
        while (word := rng.choice(SLOTS[slot])) in used:
            pass
        used.add(word)
        return word

    text = ARTICLE.sub(r"\1n ", SLOT.sub(fill, rng.choice(TEMPLATES)))
    return text[0].upper() + text[1:], pair


def sentences(rng, split):
    """Sentences without end.  `split` is "train", "sentences" (held-out sentences whose pairs
    are known) or "pairs" (held-out pairs)."""
    while True:
        text, pair = draw(rng)
        new_pair = pair is not None and held_out_pair(pair)
        if split == "pairs":
            wanted = new_pair
        else:
            wanted = not new_pair and held_out_sentence(text) == (split == "sentences")
        if wanted:
            yield text


def words(text):
    """What word errors count: words without marks and capitals."""
    return MARKS.sub("", text).lower().split()


def main():
    sizes = {slot: len(entries) for slot, entries in SLOTS.items()}
    sizes |= {"a": len(SMALL), "b": len(SMALL), "h": len(HOURS), "m": len(MINUTES)}
    total = 0
    for template in TEMPLATES:
        count = 1
        for slot in SLOT.findall(template):
            count *= sizes[slot]
        total += count
    vocabulary = {word for template in TEMPLATES for word in words(SLOT.sub("", template))}
    vocabulary |= {word for entries in SLOTS.values() for entry in entries for word in words(entry)}
    print(f"{len(TEMPLATES)} templates, about {total:,} sentences, {len(vocabulary)} words")
    rng = random.Random(2026)
    for split in ["train", "sentences", "pairs"]:
        source = sentences(rng, split)
        for _ in range(4):
            print(f"{split}: {next(source)}")


if __name__ == "__main__":
    main()
